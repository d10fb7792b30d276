"""Plain lines and Markdown on the console, with tables that show every cell whole."""

import textwrap

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown, TableElement

#: Characters in a line of a pipe or a file, which have no width.
PIPE_WIDTH = 200


class _WholeTable(TableElement):
    """A table that continues a cell on the next line where rich would cut it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            for column in table.columns:  # type: ignore[union-attr]  # the element yields one table
                column.overflow = "fold"
            yield table


class _WholeMarkdown(Markdown):
    elements = {**Markdown.elements, "table_open": _WholeTable}  # noqa: RUF012  # declared so by rich


def wide_console() -> Console:
    """Return a console for tables, wide where the output is not a terminal."""
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, PIPE_WIDTH)
    return console


def print_plain(console: Console, text: str) -> None:
    """Print a text as it is, without markup and colours. A terminal breaks its lines between words.

    Indented lines, which are commands and tables, and words longer than a line are left whole, so that they can be
    copied. Elsewhere than in a terminal, no line is broken.

    Args:
        console: the console.
        text: the text, of one or more lines.
    """
    if console.is_terminal:
        lines = text.split("\n")
        text = "\n".join(line if line.startswith(" ") else _broken(line, console.width) for line in lines)
    console.print(with_plain_spaces(text), markup=False, highlight=False, soft_wrap=True)


def with_plain_spaces(text: str) -> str:
    """Return a text whose lines are broken already, without the no-break spaces of `pipelines.pages.figures`.

    Programs search for plain ones, and some terminals cannot show others.

    Args:
        text: the text.
    """
    return text.replace("\N{NO-BREAK SPACE}", " ")


def _broken(line: str, width: int) -> str:
    return "\n".join(textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False))


def print_markdown(console: Console, text: str) -> None:
    """Print Markdown; no cell of a table is cut.

    Args:
        console: the console.
        text: the Markdown.
    """
    console.print(_WholeMarkdown(text))

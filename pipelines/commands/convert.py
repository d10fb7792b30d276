"""`spanmarker convert`: converts annotated data from one format to another."""

from typing import Annotated

import typer

from pipelines.commands import options


def convert(
    inputs: Annotated[
        list[str], typer.Argument(help="Files, folders or patterns such as 'data/*.ann', local or fsspec URLs.")
    ],
    to: Annotated[str, typer.Option(help="Format to write; docs/formats.md lists them.")],
    output: Annotated[str, typer.Option(help="File to write, or folder for formats of several files.")],
    from_: Annotated[str | None, typer.Option("--from", help="Format to read.  [default: by name and content]")] = None,
    scheme: Annotated[str | None, typer.Option(help="Label scheme of tagged input, such as IOB2.")] = None,
    token_column: options.TokenColumn = None,
    tag_column: options.TagColumn = None,
    id_column: options.IdColumn = None,
    text_column: options.TextColumn = None,
    to_scheme: Annotated[str, typer.Option(help="Label scheme of tagged output.")] = "IOB2",
    flatten: Annotated[
        str,
        typer.Option(help="Overlapping entities, if the format is flat: refuse, or keep the longest or the first."),
    ] = "refuse",
    language: Annotated[str, typer.Option(help="Language of texts that are split into sentences.")] = "en",
    storage_option: options.StorageOption = None,
) -> None:
    """Convert annotated data between formats, such as brat to JSON lines for spanmarker train.

    Formats of words get the words of the project's splitter. Entities that do not begin and end with words are counted
    and left out.
    """
    from rich.console import Console

    from pipelines.runs.convert import convert as run
    from pipelines.storage import use_options
    from spanmarker_core.errors import CoreError
    from spanmarker_core.formats.options import FLATTEN, ReadOptions, WriteOptions
    from spanmarker_core.text.tag_schemes import check_tag_scheme

    use_options(storage_option or [])
    how = next((known for known in FLATTEN if known == flatten), None)
    if how is None:
        raise CoreError("call.unknown_option", option="--flatten", value=flatten, choices=", ".join(FLATTEN))
    read = ReadOptions(
        scheme,
        token_column,
        tag_column,
        id_column or "id",
        text_column or "text",
        how,
    )
    kept = run(inputs, output, to, read, WriteOptions(check_tag_scheme(to_scheme), how, language), from_)
    console = Console()

    def say(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    say(f"{output}: {kept.documents:,} documents with {kept.entities:,} entities")
    if kept.wordless:
        say(f"Left out: {kept.wordless:,} documents without words")
    for reason, count in kept.left_out.items():
        say(f"Left out: {count:,} ({reason.replace('_', ' ')})")
    for example in kept.examples:
        say(f"  {example}")

"""Markdown of reports: tables, and cells with text that must not be interpreted as markup."""

import unicodedata
from collections.abc import Iterable, Sequence


def percent(share: float | None) -> str:
    """Format a share in percent; a dash if it is unknown.

    Args:
        share: 0 to 1; None if unknown.

    >>> percent(0.12345), percent(None)
    ('12.35', '–')
    """
    return "–" if share is None else f"{100 * share:.2f}"


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], words: int = 1) -> list[str]:
    """Return the lines of a Markdown table; all columns but the first `words` are right-aligned numbers.

    Args:
        heads: headings of the columns.
        rows: cells, already valid Markdown.
        words: number of text columns.

    >>> table(["label", "F1"], [["PER", "90.00"]])
    ['| label | F1 |', '|:--|--:|', '| PER | 90.00 |']
    """
    rule = "|".join(":--" if place < words else "--:" for place in range(len(heads)))
    lines = (" | ".join(f"{each:,}" if type(each) is int else str(each) for each in row) for row in rows)
    return [f"| {' | '.join(heads)} |", f"|{rule}|", *(f"| {line} |" for line in lines)]


def cell(text: str) -> str:
    """Escape text for a Markdown table: on one line, without ending the cell or being interpreted as markup.

    Invisible characters and those that change the text direction are spelled out.

    Args:
        text: any text.

    >>> cell("a|b`\\r\\n<c>")
    'a\\\\|b\\\\` \\\\<c\\\\>'
    >>> cell("&lt; \\u202e")
    '\\\\&lt; U+202E'
    """
    return "".join(map(_escaped, " ".join(text.split())))


def _escaped(char: str) -> str:
    if char in "\\`*_[]<>|~&$":
        return f"\\{char}"
    # Joiners belong to the spelling of some scripts.
    hidden = unicodedata.category(char) in ("Cc", "Cf") and char not in "\u200c\u200d"
    return f"U+{ord(char):04X}" if hidden else char

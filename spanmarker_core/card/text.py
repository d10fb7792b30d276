"""Escaping of untrusted text for a Markdown page: one line each, bounded in length, never interpreted as markup."""

import re

from markupsafe import Markup

from spanmarker_core.text.invisible import INVISIBLE
from spanmarker_core.text.shortened import shortened

#: Punctuation that may be markup; an underscore within a word is not.
_MARKUP = re.compile(r"[\\`*\[\]<>|~$&]|(?<![^\W_])_|_(?![^\W_])")
#: Beginnings of a line that Markdown reads as a heading, list, quotation, rule, fence or code.
_BLOCK_START = re.compile(r"[#>+=~-]|\d+(?=[.)])")


def one_line(value: object, limit: int = 1000) -> str:
    """Return a value as one line of visible characters.

    Args:
        value: any value; it is converted to text.
        limit: maximum length in characters; longer text is cut.

    >>> one_line("a\\n b\\u202e", 10), one_line("abcdef", 4)
    ('a b�', 'abc…')
    """
    return shortened(INVISIBLE.sub("\ufffd", " ".join(str(value).split())), limit)


def escaped(value: object) -> Markup:
    """Escape a value so that Markdown shows it literally within a line, a cell or a link; None becomes an empty text.

    `Markup` is returned unchanged: it is escaped already, or intended as markup.

    Args:
        value: any value; it is converted to text.

    >>> print(escaped("a|<b> _c_ d_e"))
    a\\|\\<b\\> \\_c\\_ d_e
    """
    if isinstance(value, Markup):
        return value
    return Markup("" if value is None else _MARKUP.sub(r"\\\g<0>", one_line(value)))


def paragraph(value: object) -> Markup:
    """Escape a value so that Markdown shows it literally at the start of a line.

    Args:
        value: any value; it is converted to text.

    >>> print(paragraph("# a"), paragraph("1. a"), paragraph("a"), sep=", ")
    \\# a, 1\\. a, a
    """
    text = escaped(value)
    start = _BLOCK_START.match(text)
    if start is None:
        return text
    place = start.end() if start.group()[0].isdigit() else 0
    return Markup(f"{text[:place]}\\{text[place:]}")

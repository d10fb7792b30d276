"""Escaping of untrusted text for a Markdown page: one line each, bounded in length, never interpreted as markup."""

import re

from spanmarker_core.text.shortened import shortened
from spanmarker_core.text.unseen import UNSEEN

#: Punctuation that may be markup; an underscore within a word is not.
_MARKUP = re.compile(r"[\\`*\[\]<>|~$&]|(?<![^\W_])_|_(?![^\W_])")
#: Beginnings of a line that Markdown reads as a heading, list, quotation, rule, fence or code.
_BLOCK_START = re.compile(r"[#>+=~-]|\d+(?=[.)])")


class Markup(str):
    """Markdown that is already escaped or intended as markup; `escaped` returns it unchanged."""

    __slots__ = ()


def one_line(value: object, limit: int = 1000) -> str:
    """Return a value as one line of visible characters.

    Args:
        value: any value; it is converted to text.
        limit: maximum length in characters; longer text is cut.

    >>> one_line("a\\n b\\u202e", 10), one_line("abcdef", 4)
    ('a b�', 'abc…')
    """
    return shortened(UNSEEN.sub("\ufffd", " ".join(str(value).split())), limit)


def escaped(value: object) -> Markup:
    """Escape a value so that Markdown shows it literally within a line, a cell or a link; None becomes an empty text.

    Args:
        value: any value; it is converted to text.

    >>> escaped("a|<b> _c_ d_e"), escaped(None)
    ('a\\\\|\\\\<b\\\\> \\\\_c\\\\_ d_e', '')
    """
    if isinstance(value, Markup):
        return value
    return Markup("" if value is None else _MARKUP.sub(r"\\\g<0>", one_line(value)))


def paragraph(value: object) -> Markup:
    """Escape a value so that Markdown shows it literally at the start of a line.

    Args:
        value: any value; it is converted to text.

    >>> paragraph("# a"), paragraph("1. a"), paragraph("a")
    ('\\\\# a', '1\\\\. a', 'a')
    """
    text = escaped(value)
    start = _BLOCK_START.match(text)
    if start is None:
        return text
    place = start.end() if start.group()[0].isdigit() else 0
    return Markup(f"{text[:place]}\\{text[place:]}")

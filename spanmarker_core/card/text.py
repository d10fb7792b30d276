"""Other people's texts on a page of Markdown: one line each, no longer than can be read, nobody's markup."""

import re

#: What is not seen, or turns the text around it: control characters, marks and overrides of direction, tags, halves of
#: surrogate pairs. Joiners stay, for scripts and emoji that need them.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffc"
    "\ufffe\uffff\U000e0000-\U000e007f]"
)
#: Punctuation that may be markup; an underscore within a word is none.
_MARKUP = re.compile(r"[\\`*\[\]<>|~$&]|(?<![^\W_])_|_(?![^\W_])")
#: Starts of a line that would make it a heading, a list, a quotation, a rule, a fence or code.
_BLOCK_START = re.compile(r"[#>+=~-]|\d+(?=[.)])")


class Markup(str):
    """Text that is meant as markup, or was escaped: `escaped` leaves it alone."""

    __slots__ = ()


def one_line(value: object, limit: int = 1000) -> str:
    """Return a value as one line of visible characters, cut to `limit` of them.

    >>> one_line("a\\n b\\u202e", 10), one_line("abcdef", 4)
    ('a b�', 'abc…')
    """
    text = _UNSEEN.sub("\ufffd", " ".join(str(value).split()))
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def escaped(value: object) -> Markup:
    """Return a value as Markdown that shows it as it is, within a line, a cell or a link; nothing for None.

    >>> escaped("a|<b> _c_ d_e"), escaped(None)
    ('a\\\\|\\\\<b\\\\> \\\\_c\\\\_ d_e', '')
    """
    if isinstance(value, Markup):
        return value
    return Markup("" if value is None else _MARKUP.sub(r"\\\g<0>", one_line(value)))


def paragraph(value: object) -> Markup:
    """Return a value as Markdown that may begin a line.

    >>> paragraph("# a"), paragraph("1. a"), paragraph("a")
    ('\\\\# a', '1\\\\. a', 'a')
    """
    text = escaped(value)
    start = _BLOCK_START.match(text)
    if start is None:
        return text
    place = start.end() if start.group()[0].isdigit() else 0
    return Markup(f"{text[:place]}\\{text[place:]}")

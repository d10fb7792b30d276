"""Safe markup for text of documents: it cannot inject markup, hide or reorder other content, or bloat the page."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup, escape

from spanmarker_core.text.invisible import INVISIBLE

Kind = Literal["entity", "right", "missed", "wrong"]

#: Text shown with the label, so that no meaning depends on colour alone.
_SIGNS: dict[str, str] = {"entity": "", "right": "✓ ", "missed": "missed ", "wrong": "✗ "}

_PICTURES = {"\n": "↵", "\r": "␍", "\t": "⇥"}
_LINE_ENDS = ("\n", "\r")

#: Number of colours of entities; further labels are grey.
TONES = 8

#: A text is cut only if that hides more than this many characters: an ellipsis in place of a few helps nobody.
_WORTH_CUTTING = 12
#: Maximum numbers of code points of a label, and of a full text shown as the tooltip of a cut one.
_LABEL, _TOOLTIP = 80, 1000
#: Maximum number of code points of an entity and its label that stay on one line, on a phone too.
_SHORT = 32
#: Texts of characters that are not wider than Latin ones; invisible characters are shown as their names.
_NARROW = re.compile(r"[\x20-\x7e\xa1-\u052f]*")
#: Maximum number of code points by which a section of a text moves to begin and end between words.
_TO_SPACE = 40
#: Characters of names after which a line may break; browsers know about hyphens.
_SEPARATOR = re.compile(r"(?<=[/_])(?=[^/_])")


@dataclass(frozen=True, slots=True)
class Mark:
    """A range of a text to highlight.

    Attributes:
        start: first code point.
        end: code point after the last one.
        label: label of the range.
        kind: kind of the range, which decides its style.
        tone: colour of an entity, 0 to `TONES`; the last is grey.
    """

    start: int
    end: int
    label: str
    kind: Kind = "entity"
    tone: int = 0


def shown(text: str | None, limit: int = 200) -> Markup:
    r"""Return text as safe markup; the middle of a long one is replaced by an ellipsis, with the text as its tooltip.

    Args:
        text: the text; None gives no text.
        limit: maximum number of code points. A text that is longer by a few is shown in full.

    >>> print(shown("a<b>\u202e"))
    <bdi>a&lt;b&gt;<i class="u">U+202E</i></bdi>
    >>> print(shown("abcdefghijklmnopqrstuvwxyz", limit=6))
    <bdi title="abcdefghijklmnopqrstuvwxyz">abcd…yz</bdi>
    """
    return _shown("" if text is None else text, limit, _visible)


def name(text: str, limit: int = 80) -> Markup:
    """Return a path, URL, label or id as safe markup that may wrap after its separators.

    Args:
        text: the name.
        limit: maximum number of code points, as for `shown`.

    >>> print(name("lake/part_1"))
    <bdi>lake/<wbr>part_<wbr>1</bdi>
    """
    return _shown(text, limit, _breakable)


def command(line: str) -> Markup:
    """Return a line of code as safe markup that wraps between its words.

    Args:
        line: the line.

    >>> print(command("ls --all"))
    <span>ls</span> <span>--all</span>
    """
    return Markup(" ").join(Markup("<span>{}</span>").format(_visible(word)) for word in line.split(" "))


def file_name(text: str) -> Markup:
    """Return the last part of a path or URL as safe markup, with the whole as its tooltip.

    Args:
        text: the path.

    >>> print(file_name("s3://lake/part-1"))
    <bdi title="s3://lake/part-1">part-1</bdi>
    """
    last = text.rstrip("/").rpartition("/")[2] or text
    return Markup('<bdi title="{}">{}</bdi>').format(_plain(text), _breakable(last[-_LABEL:]))


def _shown(text: str, limit: int, visible: Callable[[str], Markup]) -> Markup:
    if len(text) <= limit + _WORTH_CUTTING:
        return Markup("<bdi>{}</bdi>").format(visible(text))
    head, tail = _ends(text, limit)
    return Markup('<bdi title="{}">{}…{}</bdi>').format(_plain(text), visible(head), visible(tail))


def highlighted(text: str, marks: Sequence[Mark], limit: int = 400) -> Markup:
    """Return text with marked ranges, which may nest and cross.

    A text longer than `limit` is reduced to a section that starts shortly before the first mark. Labels are shown in
    full, unless they are absurdly long. The markup states how many entities were left out at the end.

    Args:
        text: the text.
        marks: the ranges.
        limit: maximum number of code points.

    >>> print(highlighted("Ann left York.", [Mark(9, 13, "LOC", "missed")]))
    <bdi>Ann left <mark class="missed t0 short">York<b>missed LOC</b></mark>.</bdi>
    """
    marks = sorted((each for each in marks if each.start < each.end), key=lambda each: (each.start, -each.end))
    low, high = _window(text, marks, limit)
    inside = [each for each in marks if each.start < high and each.end > low]
    parts: list[Markup] = [Markup("… ")] if low else []
    open_marks: list[Mark] = []
    at = low
    edges = sorted({min(max(edge, low), high) for each in inside for edge in (each.start, each.end)} | {high})
    for edge in edges:
        parts.append(_visible(text[at:edge], flowing=True))
        at = edge
        closing = [each for each in open_marks if min(each.end, high) == edge]
        if closing:
            # HTML elements cannot cross: elements opened later are closed with this one and opened again.
            first = min(map(open_marks.index, closing))
            reopened = [each for each in open_marks[first:] if each not in closing]
            parts += [_end(each, whole=each in closing) for each in reversed(open_marks[first:])]
            open_marks[first:] = reopened
            parts += [_begin(each, text) for each in reopened]
        opening = [each for each in inside if max(each.start, low) == edge < min(each.end, high)]
        open_marks += opening
        parts += [_begin(each, text) for each in opening]
    if high < len(text):
        beyond = len(marks) - len(inside)
        parts.append(Markup(" …"))
        if beyond:
            parts.append(_note(f"{beyond:,} more {'entity' if beyond == 1 else 'entities'}"))
    return Markup("<bdi>{}</bdi>").format(Markup("").join(parts))


def _window(text: str, marks: Sequence[Mark], limit: int) -> tuple[int, int]:
    first = marks[0].start if marks else 0
    low = max(0, min(first - limit // 4, len(text) - limit))
    low, high = between_words(text, low, min(len(text), low + limit))
    return min(low, first) if marks else low, high


def between_words(text: str, low: int, high: int) -> tuple[int, int]:
    """Return a section of a text a little shorter, so that it begins and ends between words.

    Args:
        text: the text.
        low: first code point of the section.
        high: code point after its last one.

    >>> between_words("one two three", 1, 9), between_words("one two", 0, 7)
    ((4, 7), (0, 7))
    """
    first, last = low, high
    if low > 0 and (space := re.search(r"\s+", text[low - 1 : min(low + _TO_SPACE, high)])):
        first += space.end() - 1
    at = max(high - _TO_SPACE, low)
    if high < len(text) and (space := re.search(r"\s+\S*\Z", text[at : high + 1])):
        last = at + space.start()
    return (first, last) if first < last else (low, high)


def _begin(mark: Mark, text: str) -> Markup:
    words = text[mark.start : min(mark.end, mark.start + _SHORT + 1)] + mark.label
    short = " short" if len(words) <= _SHORT and _NARROW.fullmatch(words) else ""
    return Markup('<mark class="{} t{}{}">').format(mark.kind, min(mark.tone, TONES), short)


def _end(mark: Mark, *, whole: bool) -> Markup:
    label = mark.label
    if len(label) > _LABEL + _WORTH_CUTTING:
        label = "…".join(_ends(label, _LABEL))
    return Markup("{}</mark>").format(
        Markup("<b>{}{}</b>").format(_SIGNS[mark.kind], _breakable(label)) if whole else ""
    )


def _ends(text: str, limit: int) -> tuple[str, str]:
    head = limit - limit // 3
    return text[:head], text[len(text) - (limit - head) :]


def _plain(text: str) -> str:
    """Return a text for an attribute, with its invisible characters named."""
    cut = text[:_TOOLTIP] + ("…" if len(text) > _TOOLTIP else "")
    return INVISIBLE.sub(lambda found: _PICTURES.get(found.group(), f"U+{ord(found.group()):04X}"), cut)


def _note(words: str) -> Markup:
    return Markup('<i class="u">{}</i>').format(words)


def _breakable(text: str) -> Markup:
    return Markup("<wbr>").join(map(_visible, filter(None, _SEPARATOR.split(text))))


def _visible(text: str, *, flowing: bool = False) -> Markup:
    """Return text as markup that names invisible characters; line ends of flowing text are just white space."""
    parts: list[Markup] = []
    at = 0
    for found in INVISIBLE.finditer(text):
        if flowing and found.group() in _LINE_ENDS:
            continue
        parts.append(escape(text[at : found.start()]))
        parts.append(_note(_PICTURES.get(found.group(), f"U+{ord(found.group()):04X}")))
        at = found.end()
    return Markup("").join([*parts, escape(text[at:])])

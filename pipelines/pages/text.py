"""Safe markup for text of documents: it cannot inject markup, hide or reorder other content, or bloat the page."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup, escape

from spanmarker_core.text.invisible import INVISIBLE

Kind = Literal["entity", "right", "missed", "wrong"]

#: Text shown with the label, so that no meaning depends on colour alone.
_SIGNS: dict[str, str] = {"entity": "", "right": "✓ ", "missed": "missed ", "wrong": "✗ "}

_PICTURES = {"\n": "↵", "\r": "␍", "\t": "⇥"}


@dataclass(frozen=True, slots=True)
class Mark:
    """A range of a text to highlight.

    Attributes:
        start: first code point.
        end: code point after the last one.
        label: label of the range.
        kind: kind of the range, which decides its style.
        tone: colour of an entity, 0 to 5.
    """

    start: int
    end: int
    label: str
    kind: Kind = "entity"
    tone: int = 0


def shown(text: str | None, limit: int = 200) -> Markup:
    r"""Return text as safe markup.

    Args:
        text: the text; None gives no text.
        limit: maximum number of code points; the middle of a longer text is cut out.

    >>> print(shown("a<b>\u202e"))
    <bdi>a&lt;b&gt;<i class="u">U+202E</i></bdi>
    >>> print(shown("x" * 1000, limit=6))
    <bdi>xxxx<i class="u">994 more</i>xx</bdi>
    """
    return Markup("<bdi>{}</bdi>").format(_cut("" if text is None else text, limit))


def highlighted(text: str, marks: Sequence[Mark], limit: int = 400) -> Markup:
    """Return text with marked ranges, which may nest and cross.

    A text longer than `limit` is reduced to a section that starts shortly before the first mark. The markup states the
    length of the omitted text and the number of omitted marks on either side.

    Args:
        text: the text.
        marks: the ranges.
        limit: maximum number of code points.

    >>> print(highlighted("Ann in York", [Mark(0, 3, "PER"), Mark(7, 11, "LOC", "missed")]))
    <bdi><mark class="entity t0">Ann<b>PER</b></mark> in <mark class="missed t0">York<b>missed LOC</b></mark></bdi>
    """
    marks = sorted((each for each in marks if each.start < each.end), key=lambda each: (each.start, -each.end))
    low, high = _window(len(text), marks, limit)
    inside = [each for each in marks if each.start < high and each.end > low]
    parts: list[Markup] = [_note(f"{low:,} more")] if low else []
    open_marks: list[Mark] = []
    at = low
    edges = sorted({min(max(edge, low), high) for each in inside for edge in (each.start, each.end)} | {high})
    for edge in edges:
        parts.append(_visible(text[at:edge]))
        at = edge
        closing = [each for each in open_marks if min(each.end, high) == edge]
        if closing:
            # HTML elements cannot cross: elements opened later are closed with this one and opened again.
            first = min(map(open_marks.index, closing))
            reopened = [each for each in open_marks[first:] if each not in closing]
            parts += [_end(each, whole=each in closing) for each in reversed(open_marks[first:])]
            open_marks[first:] = reopened
            parts += map(_begin, reopened)
        opening = [each for each in inside if max(each.start, low) == edge < min(each.end, high)]
        open_marks += opening
        parts += map(_begin, opening)
    if high < len(text):
        beyond = len(marks) - len(inside)
        parts.append(_note(f"{len(text) - high:,} more" + (f", {beyond:,} entities among them" if beyond else "")))
    return Markup("<bdi>{}</bdi>").format(Markup("").join(parts))


def _window(length: int, marks: Sequence[Mark], limit: int) -> tuple[int, int]:
    first = marks[0].start if marks else 0
    low = max(0, min(first - limit // 4, length - limit))
    return low, min(length, low + limit)


def _begin(mark: Mark) -> Markup:
    return Markup('<mark class="{} t{}">').format(mark.kind, mark.tone % 6)


def _end(mark: Mark, *, whole: bool) -> Markup:
    label = Markup("<b>{}{}</b>").format(_SIGNS[mark.kind], _cut(mark.label, 40)) if whole else ""
    return Markup("{}</mark>").format(label)


def _cut(text: str, limit: int) -> Markup:
    if len(text) <= limit:
        return _visible(text)
    head = limit - limit // 3
    tail = len(text) - (limit - head)
    return Markup("").join((_visible(text[:head]), _note(f"{tail - head:,} more"), _visible(text[tail:])))


def _note(words: str) -> Markup:
    return Markup('<i class="u">{}</i>').format(words)


def _visible(text: str) -> Markup:
    parts: list[Markup] = []
    at = 0
    for found in INVISIBLE.finditer(text):
        parts.append(escape(text[at : found.start()]))
        parts.append(_note(_PICTURES.get(found.group(), f"U+{ord(found.group()):04X}")))
        at = found.end()
    return Markup("").join([*parts, escape(text[at:])])

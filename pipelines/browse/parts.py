"""The text of a document in parts, with its entities, so that pages of long documents stay small."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from pipelines.pages.text import Mark, highlighted
from pipelines.texts.sentence import sentence_around

#: Approximate number of characters per part.
PART = 12_000
#: Maximum number of entities shown per part: one for every four characters.
MAX_ENTITIES = 3000
#: Maximum number of characters by which the start of a part moves back, to avoid cutting an entity or a word.
_BACK, _BACK_TO_SPACE = PART // 2, 200
#: Maximum number of marks rendered together; the cost is quadratic.
_MARKS = 60
#: Maximum number of characters shown of a sentence.
_SENTENCE = 600

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A line of text with its entities marked.

    Attributes:
        text: markup of the line.
        chosen: whether the line contains the requested entity.
        after_gap: whether blank lines come before it.
    """

    text: Markup
    chosen: bool
    after_gap: bool


def parts_of(n_characters: int) -> int:
    """Return the number of parts of a text.

    Args:
        n_characters: length of the text in code points.

    >>> parts_of(0), parts_of(PART), parts_of(PART + 1)
    (1, 1, 2)
    """
    return max(1, -(-n_characters // PART))


def part_start(number: int, n_characters: int, text: str | None, crossing: Callable[[int], int | None]) -> int:
    """Return the first character of a part. The start of the part after the last one is the end of the text.

    The start is `number * PART`, or less if that would cut a word or an entity that began shortly before.

    Args:
        number: number of the part, from 0.
        n_characters: length of the text in code points.
        text: the text; None if it is not available.
        crossing: returns the first character of the entities that cross a position; None if there are none.

    >>> part_start(1, 20_000, "x" * 11_990 + " " + "x" * 8009, lambda at: None)
    11991
    >>> part_start(1, 20_000, None, {12_000: 11_950, 11_950: None}.get)
    11950
    """
    at = min(number * PART, n_characters)
    if at in (0, n_characters):
        return at
    floor = at - _BACK
    if text is not None:
        before = text[at - _BACK_TO_SPACE : at + 1]
        space = next((place for place in range(len(before) - 1, -1, -1) if before[place].isspace()), None)
        if space is not None:
            at = min(at, at - _BACK_TO_SPACE + space + 1)
    while (start := crossing(at)) is not None and start >= floor:
        at = start
    return at


def part_with(char_start: int, start_of: Callable[[int], int], parts: int) -> int:
    """Return the number of the part that contains a character.

    Args:
        char_start: position of the character, in code points.
        start_of: returns the first character of a part.
        parts: number of parts.
    """
    number = min(char_start // PART, parts - 1)
    return number + 1 if number + 1 < parts and start_of(number + 1) <= char_start else number


def paragraphs(
    text: str,
    start: int,
    end: int,
    entities: Sequence[Row],
    tone_of: Callable[[str], int],
    chosen: Row | None = None,
) -> list[Paragraph]:
    """Return characters [start, end) of a text line by line, with their entities; blank lines are omitted.

    Args:
        text: the text of the document.
        start: first code point.
        end: code point after the last one.
        entities: rows of `annotations` that overlap the range, in reading order; they must agree with the text.
        tone_of: returns the colour of a label.
        chosen: the entity to highlight, if any.
    """
    found: list[Paragraph] = []
    gap = False
    for low, high, inside in _lines(text, start, end, entities):
        if high < end and text[low:high].endswith("\r"):
            high -= 1  # the position between the two characters of a Windows line ending
        has_chosen = chosen is not None and low <= chosen["char_start"] < high
        parts = []
        for first, last, few in _pieces(low, high, inside):
            marks = [_mark(row, first, last, tone_of) for row in few]
            if chosen is not None and has_chosen and any(row["row"] == chosen["row"] for row in few):
                marks.append(_mark({**chosen, "label": "this one", "chosen": True}, first, last, tone_of))
            parts.append(highlighted(text[first:last], marks, limit=last - first))
        blank = not text[low:high].strip()
        if not blank:
            found.append(Paragraph(Markup("").join(parts), has_chosen, gap and bool(found)))
        gap = blank
    return found


def in_sentence(text: str, entity: Row, language: str, tone: int) -> Markup:
    """Return the sentence that contains an entity, with the entity marked.

    Args:
        text: the text of the document.
        entity: row of `annotations`.
        language: language of the text, for the sentence splitter.
        tone: colour of the entity.
    """
    start, end = entity["char_start"], entity["char_end"]
    first, last = sentence_around(text, start, end, language)
    label = f"{entity['label']} {entity['score']:.2f}"
    mark = Mark(start - first, end - first, label, "entity", tone)
    return highlighted(text[first:last], [mark], limit=_SENTENCE)


def _mark(row: Row, low: int, high: int, tone_of: Callable[[str], int]) -> Mark:
    start, end = max(row["char_start"], low), min(row["char_end"], high)
    score = "" if row.get("chosen") else f" {row['score']:.2f}"
    return Mark(start - low, end - low, f"{row['label']}{score}", "entity", tone_of(row["label"]))


def _lines(text: str, start: int, end: int, entities: Sequence[Row]) -> Iterator[tuple[int, int, list[Row]]]:
    """Yield (start, end, entities) of the lines in a range; an entity that spans several lines joins them."""
    low, reach, inside, following = start, start, list[Row](), 0
    at = start
    while True:
        at = text.find("\n", at, end)
        stop = end if at < 0 else at
        while following < len(entities) and entities[following]["char_start"] <= stop:
            inside.append(entities[following])
            reach = max(reach, entities[following]["char_end"])
            following += 1
        if at < 0:
            yield low, end, inside
            return
        at += 1
        if reach < at:
            yield low, at - 1, inside
            low, inside = at, []


def _pieces(low: int, high: int, entities: Sequence[Row]) -> Iterator[tuple[int, int, list[Row]]]:
    """Split a line between entities, so that each piece has few of them."""
    cuts, reach, count = [low], low, 0
    for row in entities:
        if count >= _MARKS and row["char_start"] >= reach:
            cuts.append(row["char_start"])
            count = 0
        reach, count = max(reach, row["char_end"]), count + 1
    following = 0
    for first, last in pairwise([*cuts, high]):
        few = []
        while following < len(entities) and (entities[following]["char_start"] < last or last == high):
            few.append(entities[following])
            following += 1
        yield first, last, few

"""Examples of errors, in their sentence: few, short, and the same ones however the data were cut.

Which are kept is decided by a digest of where they are, so they are a fair draw, and anyone who scores the same data
with the same model gets the same ones.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from spanmarker_core.data.records import Sentence
from spanmarker_core.text.tag_schemes import Span

#: Examples of a kind; words to either side; code points of the longest word, label and id that are kept whole.
EXAMPLES, CONTEXT_WORDS, LONGEST = 8, 12, 60
#: Words of an entity that are shown at most.
_ENTITY_WORDS = 40


class ErrorExamples:
    """Keeps some of what it is offered, by kind.

    >>> examples = ErrorExamples(limit=1)
    >>> for number in range(9):
    ...     examples.offer("missed", ("d", number, 0, 1, "LOC"), lambda number=number: {"sentence_id": number})
    >>> len(examples.to_json()["missed"]), examples.counts()["missed"]
    (1, 9)
    """

    def __init__(self, limit: int = EXAMPLES) -> None:
        self.limit = limit
        self._kept: dict[str, list[tuple[int, str, dict[str, Any]]]] = {}  # heaps with the largest digest first
        self._counts: dict[str, int] = {}

    def offer(self, kind: str, key: Sequence[object], make: Callable[[], dict[str, Any]]) -> None:
        """Offer an example; `key` tells it from others, and `make` is called if it is kept, for now."""
        self._counts[kind] = self._counts.get(kind, 0) + 1
        name = repr(key)
        order = -int.from_bytes(blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
        kept = self._kept.setdefault(kind, [])
        if len(kept) < self.limit:
            heapq.heappush(kept, (order, name, make()))
        elif (order, name) > kept[0][:2]:
            heapq.heapreplace(kept, (order, name, make()))

    def counts(self) -> dict[str, int]:
        """Return how many there were of each kind."""
        return dict(self._counts)

    def to_json(self) -> dict[str, list[dict[str, Any]]]:
        """Return what was kept by kind, in the order of the digests."""
        return {
            kind: [example for _, _, example in sorted(kept, key=lambda item: (-item[0], item[1]))]
            for kind, kept in sorted(self._kept.items())
        }


@dataclass(frozen=True, slots=True)
class Marked:
    """An entity to show: `role` is "missed", "wrong" or "right"; gold has no score."""

    span: Span
    role: str
    score: float | None = None


def in_context(sentence: Sentence, marked: Sequence[Marked]) -> dict[str, Any]:
    """Return a part of a sentence with its marks, bounded whatever is in it.

    Marks count code points of `text`, half-open. The first of `marked` is what the example is of.

    >>> sentence = Sentence("d", 4, ["He", "left", "New", "York"], [])
    >>> example = in_context(sentence, [Marked(Span(2, 4, "LOC"), "missed")])
    >>> example["text"], [(mark["start"], mark["end"]) for mark in example["marks"]]
    ('He left New York', [(8, 16)])
    """
    first = marked[0].span
    low = max(0, first.start - CONTEXT_WORDS)
    high = min(len(sentence.words), max(first.end, 0) + CONTEXT_WORDS, first.start + _ENTITY_WORDS + CONTEXT_WORDS)
    words = [_short(word) for word in sentence.words[low:high]]
    starts, at = [], 0
    for word in words:
        starts.append(at)
        at += len(word) + 1
    marks = []
    for mark in marked:
        start, end = max(mark.span.start, low), min(mark.span.end, high)
        if start < end:
            place = {"start": starts[start - low], "end": starts[end - 1 - low] + len(words[end - 1 - low])}
            label = {"label": _short(mark.span.label), "role": mark.role}
            marks.append(place | label | ({} if mark.score is None else {"score": round(mark.score, 4)}))
    return {
        "document_id": _short(sentence.document_id),
        "sentence_id": sentence.sentence_id,
        "text": " ".join(words),
        "words_before": low,
        "words_after": len(sentence.words) - high,
        "marks": marks,
    }


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"

"""Examples of errors in their sentences: few, short, and independent of how the data were split.

A digest of each error's position decides which ones are kept. The choice is therefore a fair sample, and everyone who
scores the same data with the same model gets the same examples.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from spanmarker_core.data.records import Sentence
from spanmarker_core.text.shortened import shortened
from spanmarker_core.text.tag_schemes import Span

#: Examples per kind; words of context on either side; maximum length in code points of a word, label or id.
EXAMPLES, CONTEXT_WORDS, LONGEST = 8, 12, 60
#: Maximum number of words shown of an entity.
_ENTITY_WORDS = 40


class ErrorExamples:
    """A bounded sample of errors of each kind.

    Args:
        limit: maximum number of examples per kind.

    >>> examples = ErrorExamples(limit=1)
    >>> for number in range(9):
    ...     examples.offer("missed", ("d", number, 0, 1, "LOC"), lambda number=number: {"sentence_id": number})
    >>> len(examples.to_json()["missed"]), examples.counts()["missed"]
    (1, 9)
    """

    def __init__(self, limit: int = EXAMPLES) -> None:
        self.limit = limit
        self._kept: dict[str, list[tuple[int, str, dict[str, Any]]]] = {}  # heaps, largest digest first
        self._counts: dict[str, int] = {}

    def offer(self, kind: str, key: Sequence[object], make: Callable[[], dict[str, Any]]) -> None:
        """Offer an example.

        Args:
            kind: kind of the error.
            key: values that identify the example.
            make: function that builds the example; called only if the example is kept (it may be dropped later).
        """
        self._counts[kind] = self._counts.get(kind, 0) + 1
        name = repr(key)
        order = -int.from_bytes(blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
        kept = self._kept.setdefault(kind, [])
        if len(kept) < self.limit:
            heapq.heappush(kept, (order, name, make()))
        elif (order, name) > kept[0][:2]:
            heapq.heapreplace(kept, (order, name, make()))

    def counts(self) -> dict[str, int]:
        """Return the number of errors of each kind."""
        return dict(self._counts)

    def to_json(self) -> dict[str, list[dict[str, Any]]]:
        """Return the examples of each kind, in the order of their digests."""
        return {
            kind: [example for _, _, example in sorted(kept, key=lambda item: (-item[0], item[1]))]
            for kind, kept in sorted(self._kept.items())
        }


@dataclass(frozen=True, slots=True)
class Marked:
    """An entity to show in an example.

    Attributes:
        span: the entity.
        role: "missed", "wrong" or "right".
        score: score of the prediction, 0 to 1; None for gold.
    """

    span: Span
    role: str
    score: float | None = None


def in_context(sentence: Sentence, marked: Sequence[Marked]) -> dict[str, Any]:
    """Return a bounded part of a sentence with marked entities.

    Args:
        sentence: the sentence.
        marked: entities to show; the first one is the subject of the example.

    Returns:
        JSON values. Marks are half-open ranges of code points in `text`.

    >>> sentence = Sentence("d", 4, ["He", "left", "New", "York"], [])
    >>> example = in_context(sentence, [Marked(Span(2, 4, "LOC"), "missed")])
    >>> example["text"], [(mark["start"], mark["end"]) for mark in example["marks"]]
    ('He left New York', [(8, 16)])
    """
    first = marked[0].span
    low = max(0, first.start - CONTEXT_WORDS)
    high = min(len(sentence.words), max(first.end, 0) + CONTEXT_WORDS, first.start + _ENTITY_WORDS + CONTEXT_WORDS)
    words = [shortened(word, LONGEST) for word in sentence.words[low:high]]
    starts, at = [], 0
    for word in words:
        starts.append(at)
        at += len(word) + 1
    marks = []
    for mark in marked:
        start, end = max(mark.span.start, low), min(mark.span.end, high)
        if start < end:
            place = {"start": starts[start - low], "end": starts[end - 1 - low] + len(words[end - 1 - low])}
            label = {"label": shortened(mark.span.label, LONGEST), "role": mark.role}
            marks.append(place | label | ({} if mark.score is None else {"score": round(mark.score, 4)}))
    return {
        "document_id": shortened(sentence.document_id, LONGEST),
        "sentence_id": sentence.sentence_id,
        "text": " ".join(words),
        "words_before": low,
        "words_after": len(sentence.words) - high,
        "marks": marks,
    }

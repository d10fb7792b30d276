"""Decoding of scores into entities: three decoders over the same candidates, named and versioned.

A candidate is a (span, label) pair with a score. Without a threshold, a pair is a candidate if its label
is the span's best and not "O"; with a threshold t, if its score is at least t, regardless of the score of "O".

- `flat.v1`: no two entities share a word. "New York" wins over "York" if it scores higher.
- `nested.v1`: entities may be nested but never cross, and a span has one label.
  "[[Bank] of [England]]" is kept; of "[a (b] c)" only the better one is.
- `all.v1`: every candidate; a span may have several labels.

Decoders process candidates from best to worst. Ties are broken by (score, longer, earlier start, earlier label),
so the result does not depend on the order of the candidates.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np

from spanmarker_core.errors import CoreError
from spanmarker_core.text.similar import suggest
from spanmarker_core.text.versions import versioned

Threshold = float | Mapping[str, float | None] | None
#: A threshold that can be hashed: the pairs of the mapping.
TaskThreshold = float | tuple[tuple[str, float | None], ...] | None


@dataclass(frozen=True, slots=True)
class Candidates:
    """Scored (span, label) pairs, as arrays [n].

    Attributes:
        window: int64, index of the scored window that contains the span.
        document: int32, number of its document.
        sentence: int32, number of its sentence.
        word_start: int32, index of the first word in the sentence.
        word_end: int32, exclusive, in the sentence.
        char_start: int64, offset in the document's text; -1 without text.
        char_end: int64, exclusive, in the document's text; -1 without text.
        label: int32, index into the model's labels, never that of "O".
        score: float32, probability.
    """

    window: np.ndarray
    document: np.ndarray
    sentence: np.ndarray
    word_start: np.ndarray
    word_end: np.ndarray
    char_start: np.ndarray
    char_end: np.ndarray
    label: np.ndarray
    score: np.ndarray

    def __len__(self) -> int:
        return len(self.label)

    def take(self, indices: np.ndarray) -> "Candidates":
        """Return the candidates at the given indices, in that order.

        Args:
            indices: int64, indices of candidates.
        """
        return Candidates(*(getattr(self, name)[indices] for name in self.__slots__))

    @staticmethod
    def empty() -> "Candidates":
        """Return an object without candidates."""
        int32, int64 = np.zeros(0, np.int32), np.zeros(0, np.int64)
        return Candidates(int64, int32, int32, int32, int32, int64, int64, int32, np.zeros(0, np.float32))

    @staticmethod
    def concatenate(parts: Sequence["Candidates"]) -> "Candidates":
        """Concatenate candidates.

        Args:
            parts: at least one.
        """
        return Candidates(*(np.concatenate([getattr(p, name) for p in parts]) for name in Candidates.__slots__))


def select_pairs(
    probabilities: np.ndarray, outside: int, thresholds: np.ndarray | None, chosen: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices (span, label) of the pairs that are candidates.

    Args:
        probabilities: [n_spans, n_labels].
        outside: column of "O".
        thresholds: [n_labels], or None for the best label of each span. A label whose threshold is NaN is a candidate
            of the spans whose best label it is.
        chosen: int64 [n_spans], labels chosen by the model itself, never "O". Only these can be candidates; without
            thresholds all of them are, whatever their probability.
    """
    if chosen is not None:
        spans = np.arange(len(chosen))
        if thresholds is not None:
            spans = np.flatnonzero(~(probabilities[spans, chosen] < thresholds[chosen]))
        return spans, chosen[spans]
    if thresholds is None:
        best = probabilities.argmax(axis=1)
        spans = np.flatnonzero(best != outside)
        return spans, best[spans]
    passing = probabilities >= thresholds
    if np.isnan(thresholds).any():
        best = probabilities.argmax(axis=1)
        chosen_spans = np.flatnonzero(np.isnan(thresholds[best]))
        passing[chosen_spans, best[chosen_spans]] = True
    passing[:, outside] = False
    spans, labels = np.nonzero(passing)
    return spans, labels


def threshold_vector(threshold: Threshold, labels: Sequence[str]) -> np.ndarray | None:
    """Convert a threshold to an array with one value per label, float64 [n_labels].

    Args:
        threshold: a number for all labels, or a mapping from label to number; None gives None. Labels that the mapping
            leaves out get a threshold above 1, so they are never emitted. None in the mapping gives NaN: the label is
            emitted where it is the best one.
        labels: the model's labels.

    Raises:
        CoreError: `call.bad_threshold`; `call.unknown_label`, with the most similar labels.
    """
    if threshold is None:
        return None
    by_label = threshold if isinstance(threshold, Mapping) else dict.fromkeys(labels, threshold)
    if unknown := [label for label in by_label if label not in labels]:
        raise CoreError("call.unknown_label", label=unknown[0], suggestion=suggest(unknown[0], labels))
    for value in by_label.values():
        if value is None and isinstance(threshold, Mapping):
            continue
        if not isinstance(value, Real) or isinstance(value, bool) or not 0 <= value <= 1:
            raise CoreError("call.bad_threshold", value=value)
    return np.array([by_label.get(label, 2.0) for label in labels], np.float64)  # None becomes NaN


def check_decoder(decoder: str) -> str:
    """Return the full name of a decoder after checking that it exists; one without a version means the latest.

    Args:
        decoder: a name in `DECODERS`, with or without its version.

    Raises:
        CoreError: `call.unknown_option`.
    """
    found = versioned(decoder, DECODERS)
    if found not in DECODERS:
        raise CoreError("call.unknown_option", option="decoder", value=decoder, choices=", ".join(DECODERS))
    return found


def decode(candidates: Candidates, decoder: str) -> Candidates:
    """Return the entities among the candidates, sorted by (document, sentence, start, end, label).

    Args:
        candidates: in any order.
        decoder: a name in `DECODERS`.

    Raises:
        CoreError: `call.unknown_option`.
    """
    decoder = check_decoder(decoder)
    c = candidates
    best_first = np.lexsort((c.label, c.word_start, c.word_start - c.word_end, -c.score, c.sentence, c.document))
    c = c.take(best_first)
    new = np.ones(len(c), np.bool_)
    new[1:] = (c.document[1:] != c.document[:-1]) | (c.sentence[1:] != c.sentence[:-1])
    edges = np.append(np.flatnonzero(new), len(c))
    kept: list[int] = []
    for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        keep = DECODERS[decoder](c.word_start[start:end].tolist(), c.word_end[start:end].tolist())
        kept.extend(start + index for index in keep)
    c = c.take(np.array(kept, np.int64))
    return c.take(np.lexsort((c.label, c.word_end, c.word_start, c.sentence, c.document)))


def _flat(starts: list[int], ends: list[int]) -> list[int]:
    """Keep each span, best first, that does not share a word with a span kept earlier.

    >>> _flat([0, 1, 3], [2, 3, 4])
    [0, 2]
    """
    taken: set[int] = set()
    kept = []
    for index, (start, end) in enumerate(zip(starts, ends, strict=True)):
        words = range(start, end)
        if taken.isdisjoint(words):
            taken.update(words)
            kept.append(index)
    return kept


def _nested(starts: list[int], ends: list[int]) -> list[int]:
    """Keep each span, best first, that neither crosses nor repeats a span kept earlier.

    >>> _nested([0, 1, 1, 0], [3, 2, 4, 3])
    [0, 1]
    """
    kept: list[int] = []
    over: dict[int, list[tuple[int, int]]] = {}  # word -> kept spans over it
    for index, (start, end) in enumerate(zip(starts, ends, strict=True)):
        near = (span for word in range(start, end) for span in over.get(word, ()))
        if not any((s, e) == (start, end) or start < s < end < e or s < start < e < end for s, e in near):
            kept.append(index)
            for word in range(start, end):
                over.setdefault(word, []).append((start, end))
    return kept


def _all(starts: list[int], ends: list[int]) -> list[int]:
    """Keep every span."""
    return list(range(len(starts)))


DECODERS: dict[str, Callable[[list[int], list[int]], list[int]]] = {
    "flat.v1": _flat,
    "nested.v1": _nested,
    "all.v1": _all,
}

"""Cost and benefit of a gate: recall, share of spans kept and F1 at each threshold, and the choice of a threshold."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from spanmarker_core.data import Sentence
from spanmarker_core.data.windows import pack_annotated
from spanmarker_core.inference.scorer import ScoredBatch
from spanmarker_core.inference.tagger import Tagger
from spanmarker_core.models.gate import least_probability
from spanmarker_core.spans.decoding import Candidates, decode
from spanmarker_core.windows.packer import Windows

#: Thresholds at which a jointly trained gate is measured. Below the first, a gate rejects hardly any spans.
THRESHOLDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)

#: Loss of F1 (0 to 1) accepted for a higher threshold: a smaller loss is noise, and a higher threshold saves work.
F1_TOLERANCE = 0.001

#: An entity: number of the sentence, first word, word after its last, number of the label.
Key = tuple[int, int, int, int]


class GateScores:
    """Candidates of some windows with their gate scores, from which any threshold can be evaluated.

    Args:
        model: a loaded model with a gate; its `gate_threshold` must not exceed the thresholds to evaluate.
        windows: windows in which every sentence has its own number.
        gold: all gold entities, including those that no window can hold; None if unknown.
    """

    def __init__(self, model: Tagger, windows: Windows, gold: Iterable[Key] | None = None) -> None:
        self.model = model
        self._threshold = model.gate_threshold
        parts = [Candidates.empty()]
        passes = [np.zeros(0, np.float32)]
        all_spans = [np.zeros(0, np.float32)]
        self.gold = None if gold is None else set(gold)
        gold_spans: set[tuple[int, ...]] = {key[:3] for key in self.gold or ()}
        gold_passes: dict[tuple[int, ...], float] = {}
        self.n_candidates = 0
        for scored in model.score_batches(windows):
            least = least_probability(scored.spans, _gate(scored))
            candidates, rows = model.candidates(scored, model.config.threshold)
            parts.append(candidates)
            passes.append(least[rows])
            all_spans.append(least)
            self.n_candidates += scored.n_candidates
            if gold_spans:
                gold_passes |= _passes_of(scored, least, gold_spans)
        self._candidates = Candidates.concatenate(parts)
        self._passes = np.concatenate(passes)
        self._all_spans = np.sort(np.concatenate(all_spans))
        # A gold entity that no window can hold passes at none of the thresholds.
        self._gold_passes = np.array([gold_passes.get(key[:3], -1.0) for key in self.gold or ()], np.float32)
        self._entities = self._decoded(0.0)

    def entity_passes(self) -> np.ndarray:
        """Return the highest threshold that each entity passes, for the entities found at the lowest threshold."""
        place = dict(zip(_keys(self._candidates), self._passes.tolist(), strict=True))
        return np.array([place[key] for key in self._entities])

    def at(self, threshold: float) -> dict[str, float]:
        """Return the point of the curve at a threshold.

        The recall of the ungated model's entities is included only if all spans were scored, that is, if `model` has no
        gate or one that passes every span.

        Args:
            threshold: a gate threshold, 0 to 1.

        Returns:
            `threshold` and `kept` (the share of spans), and if known `recall_of_model`, `recall_of_gold` and `f1`,
            rounded.
        """
        return curve_point(threshold, self.counts(threshold))

    def counts(self, threshold: float) -> Counter[str]:
        """Return the counts from which `curve_point` computes a point; counts of parts of the data can be added.

        Args:
            threshold: a gate threshold, 0 to 1.
        """
        found = self._decoded(threshold)
        limit = np.float32(threshold)  # float32, like the gate's own comparison
        passing = len(self._all_spans) - int(np.searchsorted(self._all_spans, limit))
        counts = Counter(candidates=self.n_candidates, passing=passing)
        if not self._threshold:
            counts.update(of_model=len(self._entities), of_model_found=len(found & self._entities))
        if self.gold is not None:
            reached = int((self._gold_passes >= limit).sum())
            counts.update(gold=len(self.gold), gold_passing=reached, found=len(found), correct=len(found & self.gold))
        return counts

    def _decoded(self, threshold: float) -> set[Key]:
        passing = np.flatnonzero(self._passes >= np.float32(threshold))
        return set(_keys(decode(self._candidates.take(passing), self.model.config.decoder)))


def curve_point(threshold: float, counts: Counter[str]) -> dict[str, float]:
    """Compute a point of a gate's curve from counts.

    Args:
        threshold: the gate threshold.
        counts: counts at this threshold, from `GateScores.counts`.
    """

    def share(part: str, whole: str) -> float:
        return counts[part] / max(1, counts[whole])

    point = {"threshold": float(threshold), "kept": share("passing", "candidates")}
    if "of_model" in counts:
        point["recall_of_model"] = share("of_model_found", "of_model")
    if "gold" in counts:
        point["recall_of_gold"] = share("gold_passing", "gold")
        point["f1"] = 2 * counts["correct"] / max(1, counts["found"] + counts["gold"])
    return {name: round(value, 6) for name, value in point.items()}


def annotated_windows(sentences: Sequence[Sentence], model: Tagger) -> tuple[Windows, list[Key]]:
    """Pack annotated sentences with the model's context policy.

    Args:
        sentences: annotated sentences, grouped by document and in order.
        model: a loaded model.

    Returns:
        The windows, and the gold entities. Labels that the model does not have are number -1, which is never predicted.
    """
    labels = {label: number for number, label in enumerate(model.config.labels)}
    gold = [
        (number, entity.start, entity.end, labels.get(entity.label, -1))
        for number, sentence in enumerate(sentences)
        for entity in sentence.entities
    ]
    return pack_annotated(sentences, model.packer, model.config.context), gold


def best_threshold(curve: Sequence[dict[str, Any]]) -> float:
    """Return the highest threshold with an F1 within `F1_TOLERANCE` of the best; the lowest threshold if all F1 are 0.

    Args:
        curve: points with `threshold` and `f1`.

    >>> best_threshold([{"threshold": 0.1, "f1": 0.6}, {"threshold": 0.5, "f1": 0.5995}, {"threshold": 0.8, "f1": 0.5}])
    0.5
    """
    best = max(point["f1"] for point in curve)
    if best == 0:
        return min(point["threshold"] for point in curve)
    return max(point["threshold"] for point in curve if point["f1"] >= best - F1_TOLERANCE)


def recall_threshold(passes: np.ndarray, target: float) -> float:
    """Return the highest threshold that at least a given share of items passes.

    Args:
        passes: float [n], probability of each item.
        target: minimum share of items to pass, 0 to 1.

    >>> recall_threshold(np.array([0.9, 0.2, 0.8, 0.7]), 0.75)
    0.7
    """
    if len(passes) == 0:
        return 0.0
    needed = int(np.ceil(target * len(passes) - 1e-9))
    return float(np.sort(passes)[::-1][max(needed, 1) - 1])


def _gate(scored: ScoredBatch) -> np.ndarray:
    assert scored.gate is not None
    return scored.gate


def _keys(candidates: Candidates) -> Iterable[Key]:
    columns = (candidates.sentence, candidates.word_start, candidates.word_end, candidates.label)
    return zip(*(column.tolist() for column in columns), strict=True)


def _passes_of(scored: ScoredBatch, least: np.ndarray, wanted: set[tuple[int, ...]]) -> dict[tuple[int, ...], float]:
    """Return the highest threshold that each wanted (sentence, start, end) passes, for those scored here."""
    windows, spans = scored.windows, scored.spans
    places = zip(
        windows.word_sentence[spans.first_word].tolist(),
        windows.word_index[spans.first_word].tolist(),
        (windows.word_index[spans.last_word] + 1).tolist(),
        strict=True,
    )
    return {place: float(value) for place, value in zip(places, least, strict=True) if place in wanted}

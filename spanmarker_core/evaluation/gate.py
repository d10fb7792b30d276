"""What a gate costs and what it saves: recall, spans kept and F1 at each threshold, and the threshold to choose."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from spanmarker_core.data import Sentence
from spanmarker_core.data.windows import pack_annotated
from spanmarker_core.inference.tagger import ScoredBatch, Tagger
from spanmarker_core.models.gate import least_probability
from spanmarker_core.spans.decoding import Candidates, decode
from spanmarker_core.windows.packer import Windows

#: Thresholds at which a gate trained with the model is measured. Below the first it hardly turns anything away.
THRESHOLDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)

#: F1 (of 1) that a higher threshold may cost: less than that is noise, and a higher threshold is less work.
F1_TOLERANCE = 0.001

#: An entity: sentence, first word, word after its last, label number.
Key = tuple[int, int, int, int]


class GateScores:
    """The candidates of some windows with what the gate says of them, so that any threshold can be tried.

    Args:
        model: a loaded model with a gate, its `gate_threshold` no higher than the thresholds to be tried.
        windows: windows whose sentences have different numbers.
        gold: the entities there are, with those that no window can hold, if that is known.
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
        # A gold entity that no window can hold passes at no threshold.
        self._gold_passes = np.array([gold_passes.get(key[:3], -1.0) for key in self.gold or ()], np.float32)
        self._entities = self._decoded(0.0)

    def entity_passes(self) -> np.ndarray:
        """Return the highest threshold at which each entity that is found at the lowest still passes."""
        place = dict(zip(_keys(self._candidates), self._passes.tolist(), strict=True))
        return np.array([place[key] for key in self._entities])

    def at(self, threshold: float) -> dict[str, float]:
        """Return the point of the curve at a threshold; see `config_checks.CURVE_COLUMNS`.

        How much of what the ungated model finds is left is told only where all spans were scored, by `model` without
        a gate or with one that lets everything pass.
        """
        return curve_point(threshold, self.counts(threshold))

    def counts(self, threshold: float) -> Counter[str]:
        """Return what `curve_point` makes the point of; counts of parts of some data add up to those of the whole."""
        found = self._decoded(threshold)
        limit = np.float32(threshold)  # compared as the gate compares
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
    """Return the point of a gate's curve that these counts give; see `GateScores.at`."""

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
    """Return the windows of annotated sentences under the model's context policy, and their entities.

    Labels that the model doesn't have are number -1, which it never finds.
    """
    labels = {label: number for number, label in enumerate(model.config.labels)}
    gold = [
        (number, entity.start, entity.end, labels.get(entity.label, -1))
        for number, sentence in enumerate(sentences)
        for entity in sentence.entities
    ]
    return pack_annotated(sentences, model.packer, model.config.context), gold


def best_threshold(curve: Sequence[dict[str, Any]]) -> float:
    """Return the highest threshold whose F1 is within `F1_TOLERANCE` of the best; the lowest of all if that is 0.

    >>> best_threshold([{"threshold": 0.1, "f1": 0.6}, {"threshold": 0.5, "f1": 0.5995}, {"threshold": 0.8, "f1": 0.5}])
    0.5
    """
    best = max(point["f1"] for point in curve)
    if best == 0:
        return min(point["threshold"] for point in curve)
    return max(point["threshold"] for point in curve if point["f1"] >= best - F1_TOLERANCE)


def recall_threshold(passes: np.ndarray, target: float) -> float:
    """Return the highest threshold at which at least `target` of what has these probabilities passes.

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
    """Return the highest threshold at which each of the wanted (sentence, start, end) passes, of those scored here."""
    windows, spans = scored.windows, scored.spans
    places = zip(
        windows.word_sentence[spans.first_word].tolist(),
        windows.word_index[spans.first_word].tolist(),
        (windows.word_index[spans.last_word] + 1).tolist(),
        strict=True,
    )
    return {place: float(value) for place, value in zip(places, least, strict=True) if place in wanted}

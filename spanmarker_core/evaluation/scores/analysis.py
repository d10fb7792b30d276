"""Content of an evaluation report, accumulated sentence by sentence.

Memory grows with the number of labels, by 24 bytes per document and, if training data are given, with their number of
distinct surface forms.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import blake2b
from typing import Any

from spanmarker_core.data.records import Sentence, Span
from spanmarker_core.evaluation.scores import (
    attributes,
    calibration,
    confusion,
    curves,
    structure,
)
from spanmarker_core.evaluation.scores import (
    error_kinds as errors,
)
from spanmarker_core.evaluation.scores import (
    partial_matches as matching,
)
from spanmarker_core.evaluation.scores.attributes import ATTRIBUTES, BUCKETS, SEEN, Groups, TrainingForms
from spanmarker_core.evaluation.scores.examples import ErrorExamples, Marked, in_context
from spanmarker_core.evaluation.scores.metrics import EvaluationResult, Scores, SpanScorer
from spanmarker_core.evaluation.scores.overlaps import overlapping, surface
from spanmarker_core.evaluation.scores.significance import DocumentCounts
from spanmarker_core.evaluation.scores.structure import STRUCTURES, structures
from spanmarker_core.spans.decoding import Threshold

#: Maximum number of entities marked in an example.
_MARKS = 12

_NO_TRAINING = "it needs the training data (--train)"


@dataclass(frozen=True)
class Setting:
    """Settings of a prediction that the report depends on.

    Attributes:
        entity_max_length: longest span, in words, that the model can predict; None if unlimited.
        threshold: score threshold that the predictions were decoded with.
        tags: whether the model predicts tags, so that a lower threshold yields no further spans.
        labels: the labels that the model can predict; None if unlimited.
    """

    entity_max_length: int | None = None
    threshold: Threshold = None
    tags: bool = False
    labels: frozenset[str] | None = None


class Analysis:
    """Accumulator of sentences with their gold entities and predictions.

    Args:
        setting: settings of the prediction.
        training: forms and words of the training data; None if they are not available.

    >>> analysis = Analysis(Setting())
    >>> sentence = Sentence("d", 0, ["Ann", "in", "New", "York"], [Span(0, 1, "PER"), Span(2, 4, "LOC")])
    >>> analysis.add(sentence, {Span(0, 1, "PER"): 0.9, Span(3, 4, "LOC"): 0.6})
    >>> report = analysis.to_json()
    >>> report["errors"]["false"]["boundary"], report["examples"]["boundary"][0]["text"]
    (1, 'Ann in New York')
    """

    def __init__(self, setting: Setting, training: TrainingForms | None = None) -> None:
        self.setting = setting
        self.training = training
        self._scorer = SpanScorer(setting.entity_max_length, setting.labels)
        self._documents = DocumentCounts()
        self._as_tags = SpanScorer()
        self._left_out = {"gold": 0, "predicted": 0}
        self._semeval = matching.SemEval()
        self._errors = errors.ErrorCounter()
        self._confusion = confusion.Confusion()
        self._structure = Groups(STRUCTURES)
        self._seen = Groups(SEEN)
        self._attributes = {
            name: Groups(BUCKETS) for name, each in ATTRIBUTES.items() if training is not None or not each.trained
        }
        self._calibration = calibration.Calibration()
        self._curve = curves.ThresholdCurve()
        self._examples = ErrorExamples()
        self._counts = dict.fromkeys(("documents", "sentences", "words", "entities", "unknown_words"), 0)
        self._document: str | None = None
        self._digest = blake2b(digest_size=16)

    def add(
        self, sentence: Sentence, predictions: Mapping[Span, float], lowered: Mapping[Span, float] | None = None
    ) -> None:
        """Add a sentence; the sentences of a document must follow each other.

        Args:
            sentence: the sentence, with its gold entities.
            predictions: predicted entities with their scores, 0 to 1.
            lowered: entities predicted with the lowest threshold of the curve, with their scores; None uses
                `predictions`.
        """
        gold = set(sentence.entities)
        found = set(predictions)
        self._count(sentence, gold)
        self._scorer.add(gold, found)
        self._documents.add(sentence.document_id, gold, found)
        missed, false = errors.error_kinds(gold, found)
        self._errors.add(missed, false)
        self._confusion.add(gold, found)
        self._semeval.add(gold, found)
        self._add_tags(gold, found)
        self._calibration.add(list(predictions.values()), [span in gold for span in predictions])
        lowered = predictions if lowered is None else lowered
        self._curve.add(len(gold), list(lowered.values()), [span in gold for span in lowered])
        self._add_groups(sentence, gold, found)
        self._offer(sentence, gold & found, missed, false, predictions)

    def result(self) -> EvaluationResult:
        """Return the scores, without the interval of F1."""
        return self._scorer.result()

    def f1_interval(self) -> tuple[float, float] | None:
        """Return the 95 % interval of micro F1 over documents; None for fewer than two documents."""
        return self._documents.f1_interval()

    def to_json(self) -> dict[str, Any]:
        """Return everything except the scores as JSON values; shares are from 0 to 1, not rounded."""
        return {
            "data": self._counts_to_json(),
            "errors": {"conventions": errors.CONVENTIONS, **asdict(self._errors.rates())},
            "confusion": {"conventions": confusion.CONVENTIONS, **self._confusion.to_json()},
            "attributes": self._attributes_to_json(),
            "unknown_words": self._unknown(),
            "surface_forms": self._forms(),
            "structure": {"conventions": structure.CONVENTIONS, "groups": self._structure.to_json()},
            "calibration": {"conventions": calibration.CONVENTIONS, **self._calibration.to_json()},
            "threshold_curve": self._curve_to_json(),
            "cross_checks": self._cross_checks(),
            "examples": self._examples.to_json(),
        }

    def _count(self, sentence: Sentence, gold: set[Span]) -> None:
        if sentence.document_id != self._document:
            self._document = sentence.document_id
            self._counts["documents"] += 1
        self._counts["sentences"] += 1
        self._counts["words"] += len(sentence.words)
        self._counts["entities"] += len(gold)
        entities = sorted((span.start, span.end, span.label) for span in gold)
        line = json.dumps([sentence.document_id, sentence.sentence_id, sentence.words, entities])
        self._digest.update(f"{line}\n".encode())

    def _add_tags(self, gold: set[Span], found: set[Span]) -> None:
        flat_gold, flat_found = matching.as_tags(gold, found)
        self._as_tags.add(flat_gold, flat_found)
        self._left_out["gold"] += len(gold) - len(flat_gold)
        self._left_out["predicted"] += len(found) - len(flat_found)

    def _add_groups(self, sentence: Sentence, gold: set[Span], found: set[Span]) -> None:
        n_words = len(sentence.words)
        unknown = self.training.unknown(sentence.words) if self.training else 0
        self._counts["unknown_words"] += unknown
        spans = gold | found
        if not spans:
            return
        groups = structures(spans, gold)
        values = {"tLen": float(n_words), "eDen": len(gold) / n_words, "oDen": unknown / n_words}
        for span in spans:
            counts = (span in gold, span in found, span in gold and span in found)
            self._structure.add(groups[span], counts)
            values["eLen"] = float(span.end - span.start)
            if self.training:
                form = surface(sentence.words, span)
                values["eCon"] = self.training.consistency(form, span.label)
                self._seen.add(self.training.seen(form, span.label), counts)
            for name, buckets in self._attributes.items():
                buckets.add(BUCKETS[ATTRIBUTES[name].bucket(values[name])], counts)

    def _offer(
        self,
        sentence: Sentence,
        right: set[Span],
        missed: Mapping[Span, str],
        false: Mapping[Span, str],
        predictions: Mapping[Span, float],
    ) -> None:
        if not missed and not false:
            return
        near: dict[Span, list[Span]] = {}
        for wanted, found in overlapping(missed, false):
            near.setdefault(found, []).append(wanted)
        ordered = sorted(right)

        def example(span: Span, role: str) -> dict[str, Any]:
            marks = [
                Marked(span, role, predictions.get(span)),
                *(Marked(other, "missed") for other in near.get(span, ())),
                *(Marked(other, "right", predictions[other]) for other in ordered),
            ]
            return in_context(sentence, marks[:_MARKS])

        for kinds, role in ((missed, "missed"), (false, "wrong")):
            for span, kind in kinds.items():
                if role == "wrong" or kind == "missed":
                    key = (sentence.document_id, sentence.sentence_id, span.start, span.end, span.label)
                    self._examples.offer(kind, key, partial(example, span, role))

    def _counts_to_json(self) -> dict[str, Any]:
        counts = {name: count for name, count in self._counts.items() if name != "unknown_words"}
        return {**counts, "digest": self._digest.hexdigest()}

    def _attributes_to_json(self) -> dict[str, Any]:
        made: dict[str, Any] = {"conventions": attributes.CONVENTIONS}
        for name, each in ATTRIBUTES.items():
            made[name] = {"words": each.words}
            if name not in self._attributes:
                made[name]["missing"] = _NO_TRAINING
                continue
            groups = self._attributes[name].to_json()
            made[name]["buckets"] = [
                {"bucket": bucket, "interval": interval, **groups[bucket]}
                for bucket, interval in zip(BUCKETS, each.intervals(), strict=True)
            ]
        return made

    def _unknown(self) -> dict[str, Any]:
        if self.training is None:
            return {"missing": _NO_TRAINING}
        words, unknown = self._counts["words"], self._counts["unknown_words"]
        return {
            "conventions": attributes.UNKNOWN_CONVENTIONS,
            "words": words,
            "unknown": unknown,
            "density": unknown / words if words else None,
            "training_sentences": self.training.sentences,
            "training_words": len(self.training.words),
            "training_forms": len(self.training.labels),
        }

    def _forms(self) -> dict[str, Any]:
        if self.training is None:
            return {"missing": _NO_TRAINING}
        return {"conventions": attributes.SEEN_CONVENTIONS, "groups": self._seen.to_json()}

    def _curve_to_json(self) -> dict[str, Any]:
        micro = self.result().micro
        threshold = self.setting.threshold
        single = threshold if isinstance(threshold, int | float) else None
        chosen = curves.point(single, micro.support, micro.predicted, micro.correct)
        if threshold is None:
            best = "all entities from the tags" if self.setting.tags else "each span's best label, if that is not O"
            words = f"no threshold: {best}"
        elif single is None:
            words = "one threshold per label"
        else:
            words = f"threshold {single:g}"
        return {
            "conventions": curves.CONVENTIONS,
            "floor": curves.FLOOR,
            "by_tags": self.setting.tags,
            "chosen": {"words": words, **asdict(chosen)},
            "best_on_this_data": asdict(self._curve.best()),
            "points": [asdict(each) for each in self._curve.points()],
        }

    def _cross_checks(self) -> dict[str, Any]:
        as_tags = self._as_tags.result()
        return {
            "semeval_2013": {"conventions": matching.SEMEVAL_CONVENTIONS, **self._semeval.to_json()},
            "seqeval_strict_iob2": {
                "conventions": matching.STRICT_CONVENTIONS,
                "gold_left_out": self._left_out["gold"],
                "predicted_left_out": self._left_out["predicted"],
                "micro": _scores(as_tags.micro),
                "macro": _scores(as_tags.macro),
                "per_label": {label: _scores(scores) for label, scores in as_tags.per_label.items()},
            },
        }


def _scores(scores: Scores) -> dict[str, float]:
    return {name: getattr(scores, name) for name in ("precision", "recall", "f1", "support")}

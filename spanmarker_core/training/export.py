"""Export of a trained model: evaluation of the weights as stored, collection of facts, writing of card and bundle."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from spanmarker_core.bundle.config import ModelConfig
from spanmarker_core.bundle.writer import TORCH_DTYPES, save_bundle
from spanmarker_core.card import card_files, model_card
from spanmarker_core.card.facts import log_rows, scores_json
from spanmarker_core.card.machine import run_facts
from spanmarker_core.data import Sentence
from spanmarker_core.data.summary import DataSummary
from spanmarker_core.evaluation.dev_density import measure_density
from spanmarker_core.evaluation.evaluate import evaluate
from spanmarker_core.evaluation.gate import THRESHOLDS, GateScores, annotated_windows, best_threshold
from spanmarker_core.evaluation.predict import predict
from spanmarker_core.evaluation.scores.curves import ThresholdCurve
from spanmarker_core.evaluation.scores.metrics import EvaluationResult, SpanScorer
from spanmarker_core.inference.tagger import Tagger
from spanmarker_core.training.settings import TrainingSettings


@dataclass(frozen=True)
class TrainingResult:
    """Result of a training run.

    Attributes:
        digest: digest of the model.
        dev: scores on dev.
        test: scores on test; None without test data.
        steps: number of optimiser steps.
        seconds: duration of the training.
    """

    digest: str
    dev: EvaluationResult
    test: EvaluationResult | None
    steps: int
    seconds: float


def finish(
    tagger: Tagger,
    summary: DataSummary,
    dev_sentences: Sequence[Sentence],
    test_sentences: Sequence[Sentence],
    output: str | Path,
    settings: TrainingSettings,
    *,
    steps: int,
    seconds: float,
    history: Sequence[Mapping[str, Any]] = (),
    facts: dict[str, object],
    card_facts: Mapping[str, object],
    log: Callable[[str], None],
) -> TrainingResult:
    """Evaluate a trained model on dev, and on test if there is any, and write it as a bundle with its card.

    Args:
        tagger: the trained model.
        summary: summary of the training data.
        dev_sentences: annotated sentences for tuning thresholds and for evaluation.
        test_sentences: annotated sentences for evaluation; may be empty.
        output: the bundle's folder; must not exist or be empty.
        settings: settings of the run.
        steps: number of optimiser steps.
        seconds: duration of the training.
        history: log of the trainer (`trainer.state.log_history`), for the card.
        facts: additional facts for the card, which become part of the model's identity.
        card_facts: facts for the card only; `facts` take precedence.
        log: receives lines about progress.

    Raises:
        CoreError: `bundle.output_exists`, `bundle.output_not_writable`, `bundle.nan_weight`.
    """
    config, network = tagger.config, tagger.network
    # Evaluate the weights with the precision in which they are stored.
    network.to(TORCH_DTYPES[settings.weight_dtype]).to(torch.float32)
    network.eval()
    if config.gate is not None:
        config, tagger = _with_gate_threshold(tagger, dev_sentences)
        log(f"gate threshold {tagger.gate_threshold}, chosen on dev")
    if settings.tune_threshold:
        config, tagger = _with_score_threshold(tagger, dev_sentences, log)
    results = {"dev": evaluate(tagger, dev_sentences)}
    if test_sentences:
        results["test"] = evaluate(tagger, test_sentences)
    measured = {
        "settings": settings.to_json(),
        "train_sentences": summary.sentences,
        "train_entities": summary.entities,
        "steps": steps,
    }
    for split, result in results.items():
        measured |= _scores(split, result)
    config = replace(config, facts={**facts, **measured})
    # These facts are for the card only: the config is the model's identity, independent of time and machine.
    card_values = {
        **{name: value for name, value in card_facts.items() if name not in facts},
        "data": summary.to_json(),
        "log": log_rows(history),
        "scores": {split: scores_json(result) for split, result in results.items()},
        **density_facts(tagger, dev_sentences),
        **run_facts(tagger.device, seconds),
    }
    card, files = model_card(config, card_values), card_files(config, card_values)
    tokenizer = tagger.packer.tokenizer
    digest = save_bundle(output, config, network, tokenizer, card, settings.weight_dtype, files)
    return TrainingResult(digest, results["dev"], results.get("test"), steps, seconds)


def density_facts(tagger: Tagger, dev: Sequence[Sentence]) -> dict[str, Any]:
    """Return the fact `density`, with which run reports compare a corpus; an empty dict if dev is too small.

    Args:
        tagger: the trained model.
        dev: annotated dev sentences.
    """
    found = measure_density(tagger, dev)
    return {} if found is None else {"density": found.to_json()}


def gate_curve(tagger: Tagger, dev: Sequence[Sentence]) -> list[dict[str, float]]:
    """Return the gate's curve on annotated sentences at `THRESHOLDS`, computed from the spans that pass the lowest one.

    Args:
        tagger: the trained model.
        dev: annotated dev sentences.
    """
    lowest = Tagger(
        tagger.config, tagger.packer, tagger.network, tagger.device, tagger.dtype, gate_threshold=THRESHOLDS[0]
    )
    scores = GateScores(lowest, *annotated_windows(dev, tagger))
    return [scores.at(threshold) for threshold in THRESHOLDS]


def _with_gate_threshold(tagger: Tagger, dev: Sequence[Sentence]) -> tuple[ModelConfig, Tagger]:
    """Return the config with the gate's curve on dev and its best threshold, and a tagger that uses this threshold."""
    config, curve = tagger.config, gate_curve(tagger, dev)
    threshold = best_threshold(curve)
    config = replace(config, gate={**(config.gate or {}), "threshold": threshold, "curve": curve})
    return config, Tagger(config, tagger.packer, tagger.network, tagger.device, tagger.dtype, threshold)


def _with_score_threshold(
    tagger: Tagger, dev: Sequence[Sentence], log: Callable[[str], None]
) -> tuple[ModelConfig, Tagger]:
    """Return the config with the score threshold of best F1 on dev (none if that is not better), and its tagger."""
    curve, scorer = ThresholdCurve(), SpanScorer(tagger.config.entity_max_length)
    for predicted in predict(tagger, dev):
        gold = set(predicted.sentence.entities)
        scorer.add(gold, predicted.predictions)
        curve.add(len(gold), list(predicted.lowered.values()), [span in gold for span in predicted.lowered])
    best, without = curve.best(), scorer.result().micro.f1
    if best.f1 <= without:
        log(f"no score threshold: none improves F1 on dev, {without:.2%}")
        return tagger.config, tagger
    log(f"score threshold {best.threshold}: best F1 on dev, {best.f1:.2%} (without a threshold: {without:.2%})")
    config = replace(tagger.config, threshold=best.threshold)
    return config, Tagger(config, tagger.packer, tagger.network, tagger.device, tagger.dtype, tagger.gate_threshold)


def _scores(split: str, result: EvaluationResult) -> dict[str, object]:
    return {
        f"{split}_sentences": result.sentences,
        f"{split}_precision": round(result.micro.precision, 4),
        f"{split}_recall": round(result.micro.recall, 4),
        f"{split}_f1": round(result.micro.f1, 4),
    }

"""Fitting of a gate to a finished model: the model's entities in unlabelled text show which words matter.

The model scores every span of some text once. The target of a word's start (end) is the highest entity probability,
1 - P(O), of any span that starts (ends) there. The gate learns it from the text states that the model computes anyway,
without changing them. Its threshold is the highest that the target share of the model's entities passes, measured in
documents that were not used for fitting.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from spanmarker_core.bundle.config import ModelConfig
from spanmarker_core.bundle.config_checks import check_gateable
from spanmarker_core.bundle.writer import TORCH_DTYPES
from spanmarker_core.data import Sentence
from spanmarker_core.data.batches import count_words
from spanmarker_core.errors import CoreError
from spanmarker_core.evaluation.gate import GateScores, annotated_windows, recall_threshold
from spanmarker_core.inference.tagger import Tagger
from spanmarker_core.models.batch import Batch
from spanmarker_core.models.gate import GATE_WIDTH, Gate, gate_targets
from spanmarker_core.progress import SILENT, Progress
from spanmarker_core.spans.candidates import count_candidates
from spanmarker_core.windows.packer import Windows

#: Thresholds of the curve. At 0 every span passes, as without a gate.
CURVE = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)

#: Shares of the words used for fitting and for early stopping; the rest determines the threshold.
FIT_SHARE, VALIDATION_SHARE = 0.6, 0.1

#: Minimum number of entities in the text that determines the threshold; with fewer, its recall would be a guess.
MIN_ENTITIES = 50

_STEPS, _CHECK_EVERY, _PATIENCE, _BATCH_WORDS, _RATE = 2000, 50, 6, 1024, 1e-3
_SEED = 42


@dataclass(frozen=True)
class FittedGate:
    """Result of a fit.

    Attributes:
        config: the model's config with the gate and facts about it.
        n_entities: number of the ungated model's entities in held-out text.
        n_passing: number of those entities that pass the gate.
    """

    config: ModelConfig
    n_entities: int
    n_passing: int


@dataclass(frozen=True, slots=True)
class _WordExamples:
    """Words at which a candidate span starts or ends.

    Attributes:
        states: float16 [n, 2 · hidden], input of the gate.
        targets: float32 [n, 2], targets of start and end.
        counts: float32 [n, 2], 1 where spans start and end, else 0.
    """

    states: Tensor
    targets: Tensor
    counts: Tensor


def fit_gate(
    model: Tagger,
    windows: Windows,
    target_recall: float,
    annotated: Iterable[Sentence] | None = None,
    weight_dtype: str = "float32",
    log: Callable[[str], None] = print,
    progress: Progress = SILENT,
) -> FittedGate:
    """Fit a gate to a model and add it to its network.

    Args:
        model: a loaded model that scores every span. Its network gets the gate; its gate threshold is set to 0.
        windows: unlabelled text, packed as for tagging. Every sentence of all documents has its own number.
        target_recall: minimum share of the ungated model's entities that must pass, above 0 and up to 1.
        annotated: sentences with gold entities, grouped by document. With them, the curve includes recall of gold and
            F1, and the target also applies to the model's entities in them.
        weight_dtype: format of stored weights, a name in `WEIGHT_DTYPES`; the gate's weights are rounded to it before
            any measurement.
        log: receives lines about progress.
        progress: receives the progress of scoring and fitting.

    Raises:
        CoreError: `gate.no_choice`, `gate.too_few_documents`, `gate.too_few_entities`; `data.no_common_label` if the
            model knows none of the gold labels.
    """
    check_gateable(model.config)
    config, network = replace(model.config, gate=None), cast(Any, model.network)
    annotated = list(annotated or ())
    _check_labels(annotated, config)
    network.gate, model.gate_threshold, model.progress = None, None, progress
    fit, validation, held_out = _parts(windows)
    with progress.phase("scoring the text to fit to", _own_words(windows, fit, validation), "words"):
        words, seen = _words(model, windows.take(fit)), _words(model, windows.take(validation))
    log(f"fitting to {len(words.states):,} words, with {len(seen.states):,} words for early stopping")
    fitting = monotonic()
    with progress.phase("fitting", _STEPS, "steps"):
        fitted = _fit(words, seen, progress)
    gate = fitted.to(TORCH_DTYPES[weight_dtype]).float().to(model.device).eval()
    log(f"fitted in {monotonic() - fitting:.1f} s")
    network.gate, model.gate_threshold = gate, 0.0
    if not count_candidates(windows.take(held_out), config.entity_max_length).any():
        raise CoreError("gate.too_few_entities", found=0, limit=MIN_ENTITIES)
    with progress.phase("scoring the held-out text", _own_words(windows, held_out), "words"):
        scores = [GateScores(model, windows.take(held_out))]
    passes = scores[0].entity_passes()
    if len(passes) < MIN_ENTITIES:
        raise CoreError("gate.too_few_entities", found=len(passes), limit=MIN_ENTITIES)
    threshold = _below(recall_threshold(passes, target_recall))
    if annotated:
        with progress.phase("scoring the annotated text", count_words(annotated), "words"):
            scores.append(GateScores(model, *annotated_windows(annotated, model)))
        if len(found := scores[1].entity_passes()):
            threshold = min(threshold, _below(recall_threshold(found, target_recall)))
    with progress.phase("measuring the gate"):
        curve = [_point(scores, value) for value in sorted({*CURVE, threshold})]
    n_passing = int((passes >= threshold).sum())
    facts = {
        "sentences": len(np.unique(windows.word_sentence)),
        "documents": len(np.unique(windows.document)),
        "target_recall": target_recall,
        "held_out_entities": len(passes),
        "held_out_passing": n_passing,
    }
    described: dict[str, Any] = {"trained": "fitted", "width": GATE_WIDTH, "threshold": threshold, "curve": curve}
    config = replace(config, gate=described, facts={**config.facts, "gate": facts})
    return FittedGate(config, len(passes), n_passing)


def _parts(windows: Windows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Split whole documents at random into the windows for fitting, for early stopping, and held out."""
    documents, numbers = np.unique(windows.document, return_inverse=True)
    if len(documents) < 3:
        raise CoreError("gate.too_few_documents", found=len(documents), limit=3)
    n_words = np.bincount(numbers, np.diff(windows.word_offsets))
    order = np.random.default_rng(_SEED).permutation(len(documents))
    dealt = np.cumsum(n_words[order]) / max(1, n_words.sum())
    # Each part has at least one document.
    first = np.clip(np.searchsorted(dealt, FIT_SHARE, "right"), 1, len(documents) - 2)
    second = np.clip(np.searchsorted(dealt, FIT_SHARE + VALIDATION_SHARE, "right"), first + 1, len(documents) - 1)
    part = np.empty(len(documents), np.int64)
    part[order] = np.repeat([0, 1, 2], [first, second - first, len(documents) - second])
    fit, validation, held_out = (np.flatnonzero(part[numbers] == number) for number in range(3))
    return fit, validation, held_out


def _own_words(windows: Windows, *parts: np.ndarray) -> int:
    """Return the number of words that some of the windows tag, not counting words of context."""
    return sum(int(windows.take(part).word_tag.sum()) for part in parts)


@torch.no_grad()
def _words(model: Tagger, windows: Windows) -> _WordExamples:
    """Score every span of `windows`; return the words at their boundaries with the targets of the gate."""
    states, targets, counts = [], [], []
    network = cast(Any, model.network)
    for scored in model.score_batches(windows):
        batch = Batch.build(scored.windows, scored.spans).to(model.device)
        text = network.encode_text(batch).states
        entity = 1 - scored.probabilities[:, model.config.outside_index]
        n_words = len(scored.windows.word_index)
        edge = gate_targets(scored.spans, np.ones_like(entity), n_words)
        rows = torch.from_numpy(np.flatnonzero(edge.any(axis=1))).to(model.device)
        ends = (tokens.index_select(0, rows) for tokens in (batch.first_token, batch.last_token))
        states.append(torch.cat([text.index_select(0, tokens) for tokens in ends], dim=-1).half().cpu())
        rows = rows.cpu()
        targets.append(torch.from_numpy(gate_targets(scored.spans, entity, n_words))[rows])
        counts.append(torch.from_numpy(edge)[rows])
    if not states:
        raise CoreError("gate.too_few_entities", found=0, limit=MIN_ENTITIES)
    return _WordExamples(torch.cat(states), torch.cat(targets), torch.cat(counts))


def _fit(words: _WordExamples, validation: _WordExamples, progress: Progress) -> Gate:
    """Return the gate with the lowest loss on `validation`, on the CPU."""
    values = words.states.float()
    mean, spread = values.mean(dim=0), values.std(dim=0)
    # A nearly constant state would give a weight too large to store once the scale is folded into the weights.
    spread = spread.clamp_min(max(1e-6, 1e-3 * float(spread.median())))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        gate = Gate(values.shape[1] // 2)
    optimizer = torch.optim.Adam(gate.parameters(), lr=_RATE)
    random = np.random.default_rng(_SEED)
    best, best_loss, since = gate.state_dict(), math.inf, 0
    for step in range(1, _STEPS + 1):
        rows = torch.from_numpy(random.integers(0, len(values), _BATCH_WORDS))
        loss = _loss(gate, (values[rows] - mean) / spread, words.targets[rows], words.counts[rows])
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        progress.advance(1)
        if step % _CHECK_EVERY == 0:
            with torch.inference_mode():
                standard = (validation.states.float() - mean) / spread
                found = float(_loss(gate, standard, validation.targets, validation.counts))
            since += 1
            if found < best_loss:
                best_loss, since = found, 0
                best = {name: weight.clone() for name, weight in gate.state_dict().items()}
            if since == _PATIENCE:
                break
    gate.load_state_dict(best)
    return _take_raw(gate, mean, spread)


def _loss(gate: Gate, standard: Tensor, targets: Tensor, counts: Tensor) -> Tensor:
    tokens = torch.arange(2 * len(standard))  # the two states of each word are adjacent
    logits = gate(standard.view(len(tokens), -1), tokens[::2], tokens[1::2])
    losses = nn.functional.binary_cross_entropy_with_logits(logits, targets, counts, reduction="sum")
    return losses / counts.sum().clamp_min(1)


@torch.no_grad()
def _take_raw(gate: Gate, mean: Tensor, spread: Tensor) -> Gate:
    """Convert a gate of standardised states into the equivalent gate of raw states."""
    gate.hidden.weight.div_(spread)
    gate.hidden.bias.sub_(gate.hidden.weight @ mean)
    return gate


def _check_labels(annotated: list[Sentence], config: ModelConfig) -> None:
    gold = sorted({entity.label for sentence in annotated for entity in sentence.entities})
    if annotated and not set(gold) & set(config.labels):
        raise CoreError("data.no_common_label", found=", ".join(gold), labels=", ".join(config.labels))


def _point(scores: list[GateScores], threshold: float) -> dict[str, float]:
    """Return a point of the curve: spans kept and recall of the model on plain text, the rest on annotated text."""
    point = scores[0].at(threshold)
    for on_gold in scores[1:]:
        found = on_gold.at(threshold)
        point |= {name: found[name] for name in ("recall_of_gold", "f1")}
    return point


def _below(threshold: float) -> float:
    """Round down to three significant digits, so that scores still pass if their last digits differ in another batch.

    >>> _below(0.012345), _below(0.5), _below(0.0)
    (0.0123, 0.499, 0.0)
    """
    if threshold < 1e-6:
        return 0.0
    unit = 10.0 ** max(-6, math.floor(math.log10(threshold)) - 2)
    return round(math.floor(threshold * (1 - 1e-5) / unit) * unit, 6)

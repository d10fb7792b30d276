"""The scorer: a network that scores the candidate spans of windows, batch by batch."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import nn

from spanmarker_core.bundle.config import ModelConfig
from spanmarker_core.inference.batching import BatchPlan, run_batches
from spanmarker_core.models.batch import Batch
from spanmarker_core.spans.candidates import Spans, candidate_spans
from spanmarker_core.spans.decoding import Candidates, Threshold, select_pairs, threshold_vector
from spanmarker_core.windows.packer import Windows

#: Text tokens per batch: enough for full speed, and few enough to fit in the caches of a CPU. A GPU needs more to be
#: fully used.
BATCH_TOKENS = {"cpu": 1024, "cuda": 32768}


@dataclass(frozen=True, slots=True)
class ScoredBatch:
    """The network's outputs for a batch of windows.

    Attributes:
        indices: int64 [n_windows], indices of the batch's windows among the given ones.
        windows: the batch's windows.
        spans: the scored spans; their words are indices into `windows`.
        n_candidates: number of candidate spans, including those that the gate rejected.
        probabilities: float32 [n_spans, n_labels].
        gate: float32 [n_words, 2], probability that a word can start and can end an entity; None for a network without
            a gate.
        labels: int64 [n_spans], the class of each span, if the network does not choose the most probable class; None
            if it does.
    """

    indices: np.ndarray
    windows: Windows
    spans: Spans
    n_candidates: int
    probabilities: np.ndarray
    gate: np.ndarray | None
    labels: np.ndarray | None = None


class Scorer:
    """A network on its device, ready to score windows.

    Args:
        config: the model's config.
        network: the torch module.
        device: device for the network.
        dtype: number type for computations: "float32", "bfloat16" or "int8".
        gate_threshold: minimum probability of a span's edges; None for no gate, so that every candidate is scored.

    Attributes:
        config: the model's config.
        network: the torch module, on its device.
        device: the network's device.
        dtype: number type for computations.
        gate_threshold: minimum probability of a span's edges, or None.
        work: counters since loading: candidate spans ("candidates") and scored candidate spans ("scored_candidates"),
            both 0 if entities are decoded from tags; text tokens encoded ("tokens"); the same with the padding of
            attention ("token_places"); and batches that ran out of memory ("out_of_memory").
    """

    def __init__(
        self,
        config: ModelConfig,
        network: nn.Module,
        device: torch.device,
        dtype: str = "float32",
        gate_threshold: float | None = None,
    ) -> None:
        self.config = config
        self.network = network.to(device).eval()
        self.device = device
        self.dtype = dtype
        self.gate_threshold = gate_threshold
        self.work: Counter[str] = Counter()

    def score(self, windows: Windows, threshold: Threshold = None) -> Candidates:
        """Score the candidate spans of windows and return the (span, label) pairs that are candidates for entities.

        A sentence may have several windows, so decode the result for whole sentences.

        Args:
            windows: the windows.
            threshold: minimum probability of an entity, for all labels or by label; None for the bundle's default.

        Raises:
            CoreError: `call.bad_threshold`, `call.unknown_label`.
        """
        threshold = self.config.threshold if threshold is None else threshold
        parts = [self.candidates(scored, threshold)[0] for scored in self.score_batches(windows)]
        return Candidates.concatenate([Candidates.empty(), *parts])

    def candidates(self, scored: ScoredBatch, threshold: Threshold = None) -> tuple[Candidates, np.ndarray]:
        """Return the (span, label) pairs that are candidates for entities.

        Args:
            scored: the network's outputs for a batch.
            threshold: minimum probability of an entity, for all labels or by label; None for the best label of each
                span.

        Returns:
            The candidates, and int64 [n], the row of each one in the scored spans.

        Raises:
            CoreError: `call.bad_threshold`, `call.unknown_label`.
        """
        batch, spans = scored.windows, scored.spans
        thresholds = threshold_vector(threshold, self.config.labels)
        rows, labels = select_pairs(scored.probabilities, self.config.outside_index, thresholds, scored.labels)
        first, last = spans.first_word[rows], spans.last_word[rows]
        window = np.searchsorted(spans.offsets, rows, "right") - 1
        found = Candidates(
            window=scored.indices[window],
            document=batch.document[window],
            sentence=batch.word_sentence[first],
            word_start=batch.word_index[first],
            word_end=batch.word_index[last] + 1,
            char_start=batch.word_char_start[first],
            char_end=batch.word_char_end[last],
            label=labels.astype(np.int32),
            score=scored.probabilities[rows, labels],
        )
        return found, rows

    def score_batches(self, windows: Windows) -> Iterator[ScoredBatch]:
        """Yield the network's outputs for windows, in batches of windows of similar length.

        When memory runs out, smaller batches are used. Batches without candidate spans are left out.

        Args:
            windows: the windows.

        Raises:
            Exception: memory ran out for a single window, or the network failed for another reason.
        """
        batches = BatchPlan(windows, self.config.entity_max_length, BATCH_TOKENS[self.device.type])
        for scored in run_batches(batches, partial(self._scored, windows), self.device, self._count_failure):
            if scored is not None:
                yield scored

    def _count_failure(self) -> None:
        self.work["out_of_memory"] += 1

    def _scored(self, windows: Windows, indices: np.ndarray) -> ScoredBatch | None:
        """Return the network's outputs for some of the windows; None if they don't have candidate spans."""
        batch = windows.take(indices)
        spans = candidate_spans(batch, self.config.entity_max_length)
        if len(spans) == 0:
            return None
        with torch.inference_mode(), torch.autocast(self.device.type, torch.bfloat16, self.dtype == "bfloat16"):
            scores = self.network(Batch.build(batch, spans).to(self.device), self.gate_threshold)
            probabilities = scores.logits.float().softmax(dim=-1).cpu().numpy()
            gate = None if scores.gate is None else scores.gate.float().sigmoid().cpu().numpy()
        lengths = np.diff(batch.token_offsets)
        if scores.labels is None:
            self.work["candidates"] += len(spans)
            self.work["scored_candidates"] += len(probabilities)
        self.work["tokens"] += int(lengths.sum())
        self.work["token_places"] += len(lengths) * int(lengths.max())
        return ScoredBatch(
            indices=indices,
            windows=batch,
            spans=spans if scores.kept is None else spans.take(scores.kept),
            n_candidates=len(spans),
            probabilities=probabilities,
            gate=gate,
            labels=scores.labels,
        )

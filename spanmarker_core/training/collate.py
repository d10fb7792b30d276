"""Collation of windows into batches with training targets, in the form that the network and its loss take."""

from collections import OrderedDict
from typing import Any

import numpy as np
import torch

from spanmarker_core.arrays.counter_rng import uniform
from spanmarker_core.arrays.ragged import ragged_offsets, ragged_take
from spanmarker_core.models.batch import Batch
from spanmarker_core.models.gate import gate_targets, select_spans
from spanmarker_core.spans.candidates import candidate_spans
from spanmarker_core.training.dataset import Gold, TrainingWindows
from spanmarker_core.training.targets import OUTSIDE, chains, select_negatives, smoothed, span_labels, word_tags
from spanmarker_core.windows.packer import Windows


class Examples:
    """Builder of batches. Spans and targets are created on demand, so that memory holds little more than the tokens.

    Args:
        source: the windows.
        entity_max_length: longest candidate span, in words.
        share: train on the spans at the first word of an entity and on this share of the others, drawn in each epoch;
            None trains on all spans.
        seed: seed of the draws.
        negatives: train on the entities and on at most this number of other spans of each window, drawn in each epoch;
            None trains on all spans.
        boundary_smoothing: share of an entity's label that its neighbours get, see `smoothed`.
        tags: whether to add the tags of words.
        held_windows: approximate number of windows to keep in memory, in whole pools.
    """

    def __init__(
        self,
        source: TrainingWindows,
        entity_max_length: int,
        share: float | None = None,
        seed: int = 0,
        *,
        negatives: int | None = None,
        boundary_smoothing: float = 0.0,
        tags: bool = False,
        held_windows: int = 50_000,
    ) -> None:
        self.source = source
        self.entity_max_length = entity_max_length
        self.share, self.negatives = share, negatives
        self.boundary_smoothing, self.tags = boundary_smoothing, tags
        self.seed = seed
        self._pools: OrderedDict[int, tuple[Windows, Gold, np.ndarray]] = OrderedDict()
        self._held_windows = held_windows

    def __len__(self) -> int:
        return len(self.source.n_tokens)

    def batch(self, numbers: np.ndarray, epoch: int = 0) -> dict[str, Any]:
        """Build a batch of windows, ordered by length, with its targets.

        Args:
            numbers: int64, distinct numbers of the windows.
            epoch: number of the epoch; the draws of spans depend on it and on the window.

        Returns:
            A dict with

            - "batch": Batch;
            - "labels": int64 [n_spans], class of each span; with boundary smoothing float32 [n_spans, n_classes], share
              of each class;
            - "gate": float32 [n_words, 2], whether an entity starts, and whether one ends, at each word;
            - "gate_mask": float32 [n_words, 2], 1 where the gate is trained: for starts, the first words of candidate
              spans; for ends, the last words of candidate spans, if every span of up to `entity_max_length` words that
              ends there begins in the window's own words, so that all entities that end there are known. This holds
              except at some cuts of sentences longer than a window;
            - "tags" and "chains", only if `tags` is set: int64 [n_words] each, see `word_tags` and `chains`.
        """
        windows, gold, numbers = self._windows(numbers)
        spans = candidate_spans(windows, self.entity_max_length)
        labels = span_labels(windows, spans, gold)
        is_gold = labels != OUTSIDE
        n_words = len(windows.word_index)
        gate = gate_targets(spans, is_gold, n_words)
        gate_mask = gate_targets(spans, np.ones(len(spans)), n_words)
        known = self._knows_ends(windows)
        gate_mask[:, 1] *= known
        targets = labels
        if self.boundary_smoothing:
            n_classes = 1 + len(self.source.labels)
            targets = smoothed(spans, labels, n_classes, self.boundary_smoothing)
        if self.share is not None or self.negatives is not None:
            window = np.repeat(np.arange(len(windows)), np.diff(spans.offsets))
            draws = uniform(self.seed, epoch, numbers[window], np.arange(len(spans)) - spans.offsets[window])
            if self.negatives is not None:
                chosen = select_negatives(spans, is_gold, self.negatives, draws)
            else:
                chosen = select_spans(spans, is_gold, self.share or 0.0, draws)
            spans, targets = spans.take(chosen), targets[chosen]
        batch = Batch.build(windows, spans)
        example = {
            "batch": batch,
            "labels": torch.from_numpy(targets),
            "gate": torch.from_numpy(gate),
            "gate_mask": torch.from_numpy(gate_mask),
        }
        if self.tags:
            tags = word_tags(windows, gold, known)
            example |= {"tags": torch.from_numpy(tags), "chains": chains(batch, tags)}
        return example

    def _windows(self, numbers: np.ndarray) -> tuple[Windows, Gold, np.ndarray]:
        """Return windows from the shortest to the longest, their entities, and their numbers."""
        lengths = self.source.n_tokens[numbers]
        numbers = numbers[np.lexsort((numbers, lengths))]
        pools = np.searchsorted(self.source.pool_offsets, numbers, "right") - 1
        parts, golds, places = [], [], []
        for pool in np.unique(pools).tolist():
            place = np.flatnonzero(pools == pool)
            windows, gold, gold_offsets = self._pool(pool)
            rows = numbers[place] - self.source.pool_offsets[pool]
            taken, offsets = ragged_take(gold_offsets, rows)
            parts.append(windows.take(rows))
            golds.append((np.repeat(place, np.diff(offsets)), gold.word_start[taken], gold.word_end[taken]))
            places.append((place, gold.label[taken]))
        back = np.argsort(np.concatenate([place for place, _ in places]))
        window, start, end = (np.concatenate(columns) for columns in zip(*golds, strict=True))
        label = np.concatenate([labels for _, labels in places])
        together = parts[0] if len(parts) == 1 else Windows.concatenate(parts).take(back)
        return together, Gold(window, start, end, label), numbers

    def _pool(self, pool: int) -> tuple[Windows, Gold, np.ndarray]:
        """Return a pool and the offsets of its windows' entities; recently used pools are cached."""
        if pool in self._pools:
            self._pools.move_to_end(pool)
            return self._pools[pool]
        windows, gold = self.source.read(pool)
        self._pools[pool] = windows, gold, np.searchsorted(gold.window, np.arange(len(windows) + 1))
        held = sum(len(kept[0]) for kept in self._pools.values())
        while held > self._held_windows and len(self._pools) > 1:
            held -= len(self._pools.popitem(last=False)[1][0])
        return self._pools[pool]

    def _knows_ends(self, windows: Windows) -> np.ndarray:
        """Return the words for which the window owns all spans that end there, as a mask, bool [n_words]."""
        owned = ragged_offsets(windows.word_tag)
        word = np.arange(len(windows.word_index))
        window_start = np.repeat(windows.word_offsets[:-1], np.diff(windows.word_offsets))
        before = np.minimum(windows.word_index, self.entity_max_length - 1)  # preceding words that a span can include
        first = word - before
        return (first >= window_start) & (owned[word + 1] - owned[np.maximum(first, 0)] == before + 1)

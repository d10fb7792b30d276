"""Plan of a training run: the windows of each step, and their distribution over the processes.

A step depends only on (seed, epoch) and the sizes of the windows: for any number of processes and any accumulation,
step 17 contains the same windows. A position in the data is therefore a step number, and an interrupted run resumes
from it without reading earlier data.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heapreplace
from typing import Any

import numpy as np
from datasets import IterableDataset

from spanmarker_core.arrays.ragged import ragged_offsets, ragged_ranges

#: Minimum number of windows to shuffle together: pools are drawn until this number is reached. Every process holds
#: these windows in memory, so more would cost memory; with fewer, neighbours in the data would often stay in nearby
#: steps.
SHUFFLED_WINDOWS = 20_000


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """The part of a step that a process computes at once.

    Attributes:
        step: number of the step, from 0.
        epoch: number of the epoch, from 0.
        part: number of the part within the step, from 0.
        windows: int64, numbers of the windows.
        counts: False for a placeholder without effect on the weights, if a step has fewer windows than parts.
    """

    step: int
    epoch: int
    part: int
    windows: np.ndarray
    counts: bool


class Steps:
    """All steps of a run.

    Args:
        n_tokens: int32 [n], number of tokens of each window.
        n_candidates: int64 [n], number of candidate spans of each window.
        pool_offsets: int64 [n_pools + 1], bounds of the pools, the windows that are read together.
        seed: seed of the order.
        epochs: passes over the windows.
        batch_size: windows per step; the last step of an epoch may have fewer.
        batch_tokens: tokens per step, in place of `batch_size` (a longer window is a step by itself).
        parts: micro-batches per step: processes times accumulation.
        shuffled: minimum number of windows to shuffle together.

    Attributes:
        epoch_ends: int64 [epochs], number of steps after which each epoch ends.
    """

    def __init__(
        self,
        n_tokens: np.ndarray,
        n_candidates: np.ndarray,
        pool_offsets: np.ndarray,
        *,
        seed: int,
        epochs: int,
        batch_size: int,
        batch_tokens: int | None = None,
        parts: int = 1,
        shuffled: int = SHUFFLED_WINDOWS,
    ) -> None:
        self._n_tokens = n_tokens
        #: Number of tokens that the encoder processes: those of the text, and two markers per span.
        self._costs = n_tokens + 2 * n_candidates
        self._pool_offsets = pool_offsets
        self._seed, self._shuffled = seed, shuffled
        self._batch_size, self._batch_tokens = batch_size, batch_tokens
        self.parts = parts
        counts = [len(self._epoch(epoch)[1]) - 1 for epoch in range(epochs if batch_tokens else 1)]
        self.epoch_ends = np.cumsum(counts if batch_tokens else counts * epochs)

    def __len__(self) -> int:
        return int(self.epoch_ends[-1])

    def epochs_done(self, step: int) -> float:
        """Return the number of epochs that the first steps cover, including the fraction of the last one.

        Args:
            step: number of steps.
        """
        epoch = int(np.searchsorted(self.epoch_ends, step, "right"))
        before = int(self.epoch_ends[epoch - 1]) if epoch else 0
        if epoch == len(self.epoch_ends):
            return float(epoch)
        return epoch + (step - before) / (int(self.epoch_ends[epoch]) - before)

    def micro_batches(self, start: int = 0) -> Iterator[MicroBatch]:
        """Yield the parts of all steps from a given one to the end.

        Args:
            start: number of the first step.
        """
        first = int(np.searchsorted(self.epoch_ends, start, "right"))
        for epoch in range(first, len(self.epoch_ends)):
            begin = int(self.epoch_ends[epoch - 1]) if epoch else 0
            order, bounds = self._epoch(epoch)
            for row in range(max(start - begin, 0), len(bounds) - 1):
                windows = order[bounds[row] : bounds[row + 1]]
                for part, mine in enumerate(deal(self._costs[windows], self.parts)):
                    counts = len(mine) > 0
                    yield MicroBatch(begin + row, epoch, part, windows[mine] if counts else windows[:1], counts)

    def _epoch(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of all windows in the order of an epoch, and the offsets of its steps in it."""
        random = np.random.default_rng((self._seed, epoch))
        pools = random.permutation(len(self._pool_offsets) - 1)
        starts, ends = self._pool_offsets[pools], self._pool_offsets[pools + 1]
        read = ragged_offsets(ends - starts)
        groups, done = [], 0
        while done < len(pools):
            after = min(int(np.searchsorted(read, read[done] + self._shuffled)), len(pools))
            groups.append(random.permutation(ragged_ranges(starts[done:after], ends[done:after])[0]))
            done = after
        order = np.concatenate(groups)
        if self._batch_tokens is None:
            return order, np.append(np.arange(0, len(order), self._batch_size), len(order))
        spent = ragged_offsets(self._n_tokens[order])
        bounds = [0]
        while bounds[-1] < len(order):
            within = int(np.searchsorted(spent, spent[bounds[-1]] + self._batch_tokens, "right")) - 1
            bounds.append(max(bounds[-1] + 1, within))
        return order, np.array(bounds)


def deal(costs: np.ndarray, parts: int) -> list[np.ndarray]:
    """Divide items into parts of similar cost: the most expensive first, each to the part with the lowest cost so far.

    Args:
        costs: [n], cost of each item.
        parts: number of parts.

    Returns:
        The rows of each part, rising; no part is empty if there are at least as many items as parts.

    >>> [part.tolist() for part in deal(np.array([5, 1, 3, 4]), 2)]
    [[0, 1], [2, 3]]
    """
    hands: list[list[int]] = [[] for _ in range(parts)]
    loads = [(0, part) for part in range(parts)]
    heapify(loads)
    for row in np.argsort(-costs, kind="stable").tolist():
        load, part = loads[0]
        hands[part].append(row)
        heapreplace(loads, (load + int(costs[row]), part))
    return [np.array(sorted(rows), np.int64) for rows in hands]


class _Stream:
    """Micro-batches from a step on, in a form that `datasets` can store."""

    def __init__(self, steps: Steps, start: int, digest: str) -> None:
        self.steps, self.start, self.digest = steps, start, digest

    def __reduce__(self) -> tuple[Any, ...]:
        # `datasets` pickles its arguments to name the data set. Pickling the index of a large corpus would take
        # minutes.
        return str, (f"{self.digest} from step {self.start}",)


def _generate(stream: _Stream) -> Iterator[dict[str, MicroBatch]]:
    for micro_batch in stream.steps.micro_batches(stream.start):
        yield {"micro_batch": micro_batch}


def stream(steps: Steps, start: int, digest: str) -> IterableDataset:
    """Return the micro-batches from a step on as a data set, in which every `parts` examples form a step.

    Args:
        steps: the plan.
        start: number of the first step.
        digest: digest of data, seed and sizes, from which `datasets` derives the fingerprint of the data set.
    """
    return IterableDataset.from_generator(_generate, gen_kwargs={"stream": _Stream(steps, start, digest)})

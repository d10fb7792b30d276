"""The plan of a training run: which windows make a step, and which part of it each process works on.

A step is a function of (seed, epoch) and of the windows' sizes alone: however many processes there are, however they
accumulate, step 17 learns from the same windows. So a place in the data is the number of a step, and a run that was
broken off goes on there without reading what came before.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heapreplace
from typing import Any

import numpy as np
from datasets import IterableDataset

from spanmarker_core.arrays.ragged import ragged_offsets, ragged_ranges

#: Windows among which are shuffled, at least: pools are drawn until there are as many. More would be held in memory
#: by every process; fewer would leave what was next to each other in the data near each other in the steps.
SHUFFLED_WINDOWS = 20_000


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """What one process works on at once.

    Attributes:
        step, epoch: numbers from 0.
        part: which part of the step, from 0.
        windows: int64, numbers of the windows.
        counts: False where the step has fewer windows than parts and this is a stand-in that teaches nothing.
    """

    step: int
    epoch: int
    part: int
    windows: np.ndarray
    counts: bool


class Steps:
    """All steps of a run.

    Args:
        n_tokens, n_candidates, pool_offsets: see `TrainingWindows`.
        seed: of the order.
        epochs: passes over the windows.
        batch_size: windows a step; the last of an epoch may have fewer.
        batch_tokens: tokens a step may have instead (a longer window is a step of its own).
        parts: micro-batches of a step: processes times accumulation.
        shuffled: see `SHUFFLED_WINDOWS`.

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
        #: Tokens that the encoder sees: those of the text, and two markers a span.
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
        """Return how many epochs the first `step` steps are, with the share of the one that they break off in."""
        epoch = int(np.searchsorted(self.epoch_ends, step, "right"))
        before = int(self.epoch_ends[epoch - 1]) if epoch else 0
        if epoch == len(self.epoch_ends):
            return float(epoch)
        return epoch + (step - before) / (int(self.epoch_ends[epoch]) - before)

    def micro_batches(self, start: int = 0) -> Iterator[MicroBatch]:
        """Yield the parts of step `start`, of the one after it, and so on to the end."""
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
        """Return (numbers of all windows in the order of an epoch, where its steps begin in it and the end)."""
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
    """Deal items to parts so that these cost about the same: the dearest first, each to the part with the least.

    Returns:
        The rows of each part, rising; none is empty where there are as many items as parts.

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
    """Micro-batches from a step on, as `datasets` can hold them."""

    def __init__(self, steps: Steps, start: int, digest: str) -> None:
        self.steps, self.start, self.digest = steps, start, digest

    def __reduce__(self) -> tuple[Any, ...]:
        # `datasets` pickles what it is given to name it. The index of a large corpus would take minutes.
        return str, (f"{self.digest} from step {self.start}",)


def _generate(stream: _Stream) -> Iterator[dict[str, MicroBatch]]:
    for micro_batch in stream.steps.micro_batches(stream.start):
        yield {"micro_batch": micro_batch}


def stream(steps: Steps, start: int, digest: str) -> IterableDataset:
    """Return the micro-batches from step `start` on as a data set; every `parts` examples are a step.

    Args:
        steps: the plan.
        start: step to begin with.
        digest: of data, seed and sizes: what `datasets` tells it apart from others by.
    """
    return IterableDataset.from_generator(_generate, gen_kwargs={"stream": _Stream(steps, start, digest)})

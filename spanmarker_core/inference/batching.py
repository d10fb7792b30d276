"""Batches of windows of similar length under a token budget, which is reduced when memory runs out.

Batches are packed end to end, so only attention uses padding, and windows of similar length need little of it.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import TypeVar

import numpy as np
import torch

from spanmarker_core.inference.out_of_memory import is_from_onednn, is_out_of_memory
from spanmarker_core.spans.candidates import count_candidates
from spanmarker_core.windows.packer import Windows

#: Number of candidate spans that count as one text token, because each needs a row of scores.
_SPANS_A_TOKEN = 8
_Result = TypeVar("_Result")


class BatchPlan:
    """An iterator over batches as index arrays, which cover all windows once and stay within a budget.

    The cost of a window is the number of its text tokens or, if larger, an eighth of the number of its candidate spans.
    Markers don't count, because they are processed in chunks. Windows are sorted by length, then position, so equal
    input gives equal batches. A window over the budget is a batch by itself.

    Args:
        windows: the windows to batch.
        entity_max_length: maximum words per candidate span.
        max_batch_tokens: maximum text tokens per batch.

    Attributes:
        budget: maximum text tokens of the next batch.
    """

    def __init__(self, windows: Windows, entity_max_length: int, max_batch_tokens: int) -> None:
        lengths = np.diff(windows.token_offsets)
        costs = np.maximum(lengths, count_candidates(windows, entity_max_length) // _SPANS_A_TOKEN)
        self._order = np.lexsort((costs, lengths))
        self._spent = np.append(0, np.cumsum(costs[self._order]))
        self._start = self._end = 0
        self.budget = max_batch_tokens

    def __iter__(self) -> Iterator[np.ndarray]:
        return self

    def __next__(self) -> np.ndarray:
        self._start = self._end
        if self._start == len(self._order):
            raise StopIteration
        within = int(np.searchsorted(self._spent, self._spent[self._start] + self.budget, "right")) - 1
        self._end = max(self._start + 1, within)
        return self._order[self._start : self._end]

    def again(self) -> None:
        """Return the last batch again in the next iteration."""
        self._end = self._start

    def halve(self) -> bool:
        """Divide the last batch into smaller ones, and limit further batches to half of its cost.

        Returns:
            Whether the batch could be divided; a single window can't.
        """
        if self._end - self._start < 2:
            return False
        self.budget = min(self.budget, int(self._spent[self._end] - self._spent[self._start])) // 2
        self.again()
        return True


def run_batches(
    batches: BatchPlan,
    run: Callable[[np.ndarray], _Result],
    device: torch.device,
    short: Callable[[], None] = lambda: None,
) -> Iterator[_Result]:
    """Run a function on each batch and yield its results; when memory runs out, use smaller batches from then on.

    If a single window still fails inside oneDNN, oneDNN is disabled for this and all later windows: oneDNN maps its own
    pages, which can fail under a memory limit while the C library holds on to freed memory.

    Args:
        batches: the batches.
        run: function of the indices of a batch.
        device: device that `run` uses.
        short: called each time memory runs out.

    Raises:
        Exception: memory ran out for a single window, or `run` failed for another reason.
    """
    onednn = True
    for indices in batches:
        try:
            with nullcontext() if onednn else torch.backends.mkldnn.flags(enabled=False):
                result = run(indices)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            if not batches.halve():
                if not (onednn and is_from_onednn(error)):
                    raise
                onednn = False
                batches.again()
        else:
            yield result
            continue
        # The frames of the failed call, and the memory that they held, are only released at this point.
        short()
        if device.type == "cuda":
            torch.cuda.empty_cache()

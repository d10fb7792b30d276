"""Windows -> batches under a token budget, windows of like length together; smaller ones where memory runs out.

Batches are packed end to end, so nothing but attention has padding, and windows of like length leave little there.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import TypeVar

import numpy as np
import torch

from spanmarker_core.inference.out_of_memory import is_from_onednn, is_out_of_memory
from spanmarker_core.spans.candidates import count_candidates
from spanmarker_core.windows.packer import Windows

#: Candidate spans that count as one text token: they cost a row of scores each.
_SPANS_A_TOKEN = 8
_Result = TypeVar("_Result")


class BatchPlan:
    """Index arrays that cover some windows once, each within a budget or a single window.

    The cost of a window is its text tokens, or an eighth of its candidate spans where they are more. Markers don't
    count: they are worked off in chunks. The order is by length, then position, so equal input gives equal batches.

    Args:
        windows: the windows to batch.
        entity_max_length: words of the longest candidate span.
        max_batch_tokens: text tokens a batch may hold.

    Attributes:
        budget: tokens that the next batch may hold.
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
        """Take the last batch back, to come again."""
        self._end = self._start

    def halve(self) -> bool:
        """Take the last batch back, to come again in smaller ones, and let batches hold half of what it held.

        Returns whether that was possible: a single window is not divided.
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
    """Yield what `run` makes of each batch. Where memory runs out, the batch and what comes after it get smaller.

    A window by itself that oneDNN finds no memory for goes without oneDNN, and so do those after it: it maps pages of
    its own, which a process that may have no more doesn't get while the C library holds what was freed.

    Args:
        run: takes the indices of a batch.
        short: told of each time that memory ran out.

    Raises:
        Exception: memory ran out (see `out_of_memory`) on a single window, or what else fails.
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
        # Only here the frames of what failed are gone, and with them the memory that they held.
        short()
        if device.type == "cuda":
            torch.cuda.empty_cache()

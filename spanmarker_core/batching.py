"""Windows -> batches under a token budget, windows of like length together.

Batches are packed end to end, so nothing but attention has padding, and windows of like length leave little there.
"""

from collections.abc import Iterator

import numpy as np

from spanmarker_core.spans import count_candidates
from spanmarker_core.windows import Windows

#: Candidate spans that count as one text token: they cost a row of scores each.
_SPANS_A_TOKEN = 8


def plan_batches(windows: Windows, entity_max_length: int, max_batch_tokens: int) -> Iterator[np.ndarray]:
    """Yield index arrays that cover the windows once, each within the budget or a single window.

    The cost of a window is its text tokens, or an eighth of its candidate spans where they are more. Markers don't
    count: they are worked off in chunks. The order is by length, then position, so equal input gives equal batches.

    Args:
        windows: the windows to batch.
        entity_max_length: words of the longest candidate span.
        max_batch_tokens: text tokens a batch may hold.
    """
    lengths = np.diff(windows.token_offsets)
    costs = np.maximum(lengths, count_candidates(windows, entity_max_length) // _SPANS_A_TOKEN)
    order = np.lexsort((costs, lengths))
    running = np.cumsum(costs[order])
    start, spent = 0, 0
    while start < len(order):
        end = max(start + 1, int(np.searchsorted(running, spent + max_batch_tokens, "right")))
        yield order[start:end]
        spent = int(running[end - 1])
        start = end

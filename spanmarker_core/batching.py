"""Windows -> batches under a token budget, windows of like length together.

Batches are packed end to end, so there is no padding; like lengths still matter, since the text
attention of windows of equal length runs as one product.
"""

from collections.abc import Iterator

import numpy as np

from spanmarker_core.spans import count_candidates
from spanmarker_core.windows import Windows


def plan_batches(windows: Windows, entity_max_length: int, max_batch_tokens: int) -> Iterator[np.ndarray]:
    """Yield index arrays that cover the windows once, each within the budget or a single window.

    The cost of a window is its text tokens plus two markers for each candidate span. The order is by
    length, then position, so equal input gives equal batches.

    Args:
        windows: the windows to batch.
        entity_max_length: words of the longest candidate span.
        max_batch_tokens: text and marker tokens a batch may hold.
    """
    lengths = np.diff(windows.token_offsets)
    costs = lengths + 2 * count_candidates(windows, entity_max_length)
    order = np.lexsort((costs, lengths))
    running = np.cumsum(costs[order])
    start, spent = 0, 0
    while start < len(order):
        end = max(start + 1, int(np.searchsorted(running, spent + max_batch_tokens, "right")))
        yield order[start:end]
        spent = int(running[end - 1])
        start = end

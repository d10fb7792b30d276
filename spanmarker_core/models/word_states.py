"""States of words out of those of their tokens, and maxima over runs of any rows."""

import torch
from torch import Tensor


def word_maxima(states: Tensor, first_token: Tensor, last_token: Tensor) -> Tensor:
    """Return each word's states: the maximum of its tokens' (Ji et al. 2022, equation 3), [n_words, hidden].

    Args:
        states: [n_tokens, hidden].
        first_token, last_token: int64 [n_words], inclusive, into `states`. A word without a token may have a last one
            before its first, as in `Batch`; it gets the maximum of the two.
    """
    if len(first_token) == 0:
        return states[:0]
    first, last = torch.minimum(first_token, last_token), torch.maximum(first_token, last_token)
    return range_max(states, first, last, longest=int((last - first).max()) + 1)


def range_max(rows: Tensor, first: Tensor, last: Tensor, longest: int) -> Tensor:
    """Return the maximum of each range of rows, [n_ranges, size].

    From a table of the maxima of all windows of 1, 2, 4, … rows: a range of any length is the union of two windows of
    one width, its first and its last. The cost is two gathers a range, however long it is.

    Args:
        rows: [n, size].
        first, last: int64 [n_ranges], inclusive, into `rows`.
        longest: rows of the longest range, or more, up to `n`.

    >>> rows = torch.tensor([[3, 0], [1, 5], [2, 4]])
    >>> range_max(rows, torch.tensor([0, 1, 0]), torch.tensor([0, 2, 2]), 3).tolist()
    [[3, 0], [2, 5], [3, 5]]
    """
    if longest <= 1:
        return rows.index_select(0, first)
    tables, width = [rows], 1
    while 2 * width <= longest:
        tables.append(torch.maximum(tables[-1][:-width], tables[-1][width:]))
        width *= 2
    widths = torch.tensor([1 << level for level in range(len(tables))])
    begins = torch.tensor([0, *map(len, tables[:-1])]).cumsum(0)
    widths, begins = (made.to(rows.device, non_blocking=True) for made in (widths, begins))
    level = torch.bucketize(last - first + 1, widths, right=True) - 1
    table, begin = torch.cat(tables), begins[level]
    from_first = table.index_select(0, begin + first)
    return torch.maximum(from_first, table.index_select(0, begin + last + 1 - widths[level]))

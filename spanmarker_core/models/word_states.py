"""States of words from those of their tokens, and maxima over ranges of rows."""

import torch
from torch import Tensor


def word_maxima(states: Tensor, first_token: Tensor, last_token: Tensor) -> Tensor:
    """Return the states of words, the maximum over their tokens (Ji et al. 2022, equation 3), [n_words, hidden].

    Args:
        states: [n_tokens, hidden].
        first_token: int64 [n_words], index of each word's first token in `states`.
        last_token: int64 [n_words], inclusive. For a word without a token it may be before the first one; the word
            then gets the maximum of the two.
    """
    if len(first_token) == 0:
        return states[:0]
    first, last = torch.minimum(first_token, last_token), torch.maximum(first_token, last_token)
    return range_max(states, first, last, longest=int((last - first).max()) + 1)


def range_max(rows: Tensor, first: Tensor, last: Tensor, longest: int) -> Tensor:
    """Return the maximum of each range of rows, [n_ranges, size].

    The function uses tables of the maxima of all windows of 1, 2, 4, … rows: a range of any length is the union of its
    first and its last window of one of these widths. The cost is two gathers per range, regardless of its length.

    Args:
        rows: [n, size].
        first: int64 [n_ranges], index of each range's first row.
        last: int64 [n_ranges], inclusive.
        longest: number of rows of the longest range, or a larger number up to `n`.

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

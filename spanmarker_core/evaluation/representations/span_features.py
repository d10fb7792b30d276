"""Features of spans, and the cosine similarity between a span and its neighbours.

The features of a span are the input of the linear classifier: the pre-logit representation z of DSpERT (Zhu et al.
2023, equations 5 and 6; section 5 investigates it).
"""

from typing import Any

import numpy as np
import torch

from spanmarker_core.arrays.ragged import ragged_ranges
from spanmarker_core.inference.tagger import Tagger
from spanmarker_core.models.batch import Batch
from spanmarker_core.spans.candidates import Spans
from spanmarker_core.windows.packer import Windows

#: Maximum number of words between a span and a neighbour that shares no word with it.
NEAR = 5
#: Number of groups of overlapping ratios: 0, then up to 0.1, up to 0.2, … up to 1.
RATIOS = 11
#: Number of feature values per chunk of pairs, which bounds memory for any number of pairs.
_NUMBERS_A_CHUNK = 1 << 22


def span_features(model: Tagger, windows: Windows, spans: Spans, rows: np.ndarray) -> np.ndarray:
    """Return the classifier's input for some spans, float32 [len(rows), size].

    The gate is not applied. In architectures where spans attend to each other, all spans are encoded, so that the
    features equal those used for tagging.

    Args:
        model: a tagger whose architecture classifies spans.
        windows: windows that fit into a single batch.
        spans: all candidate spans of the windows.
        rows: int64, rising, at least one: indices of the requested spans.
    """
    network: Any = model.network
    joint = network.options.joint
    encoded = spans if joint else spans.take(rows)
    with torch.inference_mode(), torch.autocast(model.device.type, torch.bfloat16, model.dtype == "bfloat16"):
        batch = Batch.build(windows, encoded).to(model.device)
        text = network.read(batch)
        parts = [
            network.encode_spans(batch, encoded, text, start, end).float().cpu().numpy()
            for start, end in network.chunks(encoded, network.spans_a_chunk(text, encoded))
        ]
    features = np.concatenate(parts)
    return features[rows] if joint else features


def neighbours(windows: Windows, spans: Spans, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the neighbours of some spans, and their overlapping ratios.

    Neighbours are the other candidate spans of the same sentence and window that share a word with a span, or are at
    most `NEAR` words away. The overlapping ratio of two spans is their "proportion of the shared tokens" (DSpERT,
    section 5.1). Here it is the number of shared words divided by the number of words in either span: with this reading
    it is 1 only for identical spans, in line with the paper's ranges. "New York" and "New York University" have 2/3.

    Args:
        windows: windows.
        spans: all candidate spans of the windows.
        rows: int64 [n], indices of the spans.

    Returns:
        For each pair: the index into `rows`, the index of the neighbour in `spans`, and the group of the overlapping
        ratio, 0 for none and g for one above (g - 1)/10 up to g/10; int64 [n_pairs] each.
    """
    longest = int((spans.last_word - spans.first_word).max(initial=0))
    first, last = spans.first_word[rows], spans.last_word[rows]
    # First words rise over all windows, so possible neighbours are contiguous.
    low = np.searchsorted(spans.first_word, first - NEAR - 1 - longest, "left")
    high = np.searchsorted(spans.first_word, last + NEAR + 1, "right")
    other, offsets = ragged_ranges(low, high)
    of = np.repeat(np.arange(len(rows)), np.diff(offsets))
    window = np.repeat(np.arange(len(windows)), np.diff(windows.word_offsets))
    own, its = spans.first_word[rows[of]], spans.first_word[other]
    own_last, its_last = spans.last_word[rows[of]], spans.last_word[other]
    shared = np.minimum(own_last, its_last) - np.maximum(own, its) + 1  # negative: minus the words in between
    near = (shared >= -NEAR) & (other != rows[of])
    near &= (window[own] == window[its]) & (windows.word_sentence[own] == windows.word_sentence[its])
    shared = np.maximum(shared, 0)
    either = (own_last - own + 1) + (its_last - its + 1) - shared
    group = -(-10 * shared // either)  # rounded up in integer arithmetic, so exact
    return of[near], other[near], group[near]


def pair_cosines(features: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the cosines of pairs of rows, float64 [n_pairs]; NaN if either row is all zeros.

    Args:
        features: [n, size].
        first: int64 [n_pairs], rows of `features`.
        second: int64 [n_pairs], rows of `features`.

    >>> pair_cosines(np.array([[3.0, 4.0], [3.0, 0.0], [0.0, 0.0]]), np.array([0, 0]), np.array([1, 2])).tolist()
    [0.6, nan]
    """
    lengths = norms(features)
    size = max(1, _NUMBERS_A_CHUNK // features.shape[1])
    cosines = np.empty(len(first))
    for start in range(0, len(first), size):
        a, b = first[start : start + size], second[start : start + size]
        products = np.einsum("nd,nd->n", features[a], features[b], dtype=np.float64)
        with np.errstate(invalid="ignore"):
            cosines[start : start + size] = products / (lengths[a] * lengths[b])
    return cosines


def norms(features: np.ndarray) -> np.ndarray:
    """Return the L2 norm of each row, float64 [n].

    Args:
        features: [n, size].

    >>> norms(np.array([[3, 4], [0, 0]], np.float32)).tolist()
    [5.0, 0.0]
    """
    return np.sqrt(np.einsum("nd,nd->n", features, features, dtype=np.float64))

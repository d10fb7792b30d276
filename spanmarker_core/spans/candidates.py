"""Candidate spans as arrays: all runs of up to `entity_max_length` words of a sentence."""

from dataclasses import dataclass

import numpy as np

from spanmarker_core.arrays.ragged import ragged_offsets
from spanmarker_core.windows.packer import Windows


@dataclass(frozen=True, slots=True)
class Spans:
    """Candidate spans of windows, sorted by (window, first word, last word).

    Attributes:
        offsets: int64 [n_windows + 1]; the spans of window `i` are `offsets[i]:offsets[i + 1]`.
        first_word: int64 [n_spans], index into the flat `word_*` arrays of the windows.
        last_word: int64 [n_spans], inclusive, index into the same arrays.
        first_token: int32 [n_spans], index in the window of the token that the start marker points at.
        last_token: int32 [n_spans], inclusive, index in the window of the token that the end marker points at.
    """

    offsets: np.ndarray
    first_word: np.ndarray
    last_word: np.ndarray
    first_token: np.ndarray
    last_token: np.ndarray

    def __len__(self) -> int:
        return len(self.first_word)

    def take(self, rows: np.ndarray) -> "Spans":
        """Return the spans at the given rows.

        Args:
            rows: int64, increasing.
        """
        return Spans(
            offsets=np.searchsorted(rows, self.offsets),
            first_word=self.first_word[rows],
            last_word=self.last_word[rows],
            first_token=self.first_token[rows],
            last_token=self.last_token[rows],
        )

    def rows_of(self, first_word: np.ndarray, last_word: np.ndarray) -> np.ndarray:
        """Return the row of each span with the given words, int64 [n]; -1 if there is no such span.

        Args:
            first_word: int64 [n], index into the flat `word_*` arrays.
            last_word: int64 [n], inclusive.
        """
        if len(self) == 0:
            return np.full(len(first_word), -1)
        n_words = max(int(self.last_word.max()), int(last_word.max(initial=0))) + 1
        keys, queries = self.first_word * n_words + self.last_word, first_word * n_words + last_word
        rows = np.minimum(np.searchsorted(keys, queries), len(keys) - 1)
        return np.where(keys[rows] == queries, rows, -1)


def candidate_spans(windows: Windows, entity_max_length: int) -> Spans:
    """Enumerate the candidate spans that windows own.

    A span begins at a word with `word_tag`, has at most `entity_max_length` words and stays within its sentence
    and window. Words without a token may be inside a span but not at its edges, because a marker needs a token
    to point at.

    Five words with a limit of two give 5 + 4 spans; without a limit 5·6/2 = 15.

    Args:
        windows: the windows.
        entity_max_length: maximum words per span.
    """
    n_words = len(windows.word_sentence)
    window_of_word = np.repeat(np.arange(len(windows)), np.diff(windows.word_offsets))
    if n_words == 0:
        empty = np.zeros(0, np.int64)
        return Spans(np.zeros(len(windows) + 1, np.int64), empty, empty, empty.astype(np.int32), empty.astype(np.int32))
    run_end = _run_ends(windows)

    has_token = windows.word_token_end > windows.word_token_start
    starts = np.flatnonzero(windows.word_tag & has_token)
    counts = np.minimum(entity_max_length, run_end[starts] - starts)
    offsets = ragged_offsets(counts)
    first_word = np.repeat(starts, counts)
    last_word = first_word + np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
    if not has_token.all():
        ends_on_token = has_token[last_word]
        first_word, last_word = first_word[ends_on_token], last_word[ends_on_token]
    return Spans(
        offsets=np.searchsorted(window_of_word[first_word], np.arange(len(windows) + 1)),
        first_word=first_word,
        last_word=last_word,
        first_token=windows.word_token_start[first_word],
        last_token=windows.word_token_end[last_word] - 1,
    )


def count_candidates(windows: Windows, entity_max_length: int) -> np.ndarray:
    """Return the number of candidate spans of each window, int64 [n_windows], without enumerating them.

    Args:
        windows: the windows.
        entity_max_length: maximum words per span.
    """
    ends = ragged_offsets(windows.word_token_end > windows.word_token_start)  # words with a token before each word
    starts = np.flatnonzero(windows.word_tag & (ends[1:] > ends[:-1]))
    limit = np.minimum(starts + entity_max_length, _run_ends(windows)[starts])
    spans = np.zeros(len(windows.word_sentence), np.int64)
    spans[starts] = ends[limit] - ends[starts]
    return np.diff(ragged_offsets(spans)[windows.word_offsets])


@dataclass(frozen=True, slots=True)
class Placement:
    """Entities by the window that owns their first word.

    Attributes:
        entity: int64 [n], indices of the entities that are candidate spans of a window, by their places in the windows.
        window: int64 [n], rising, the window of each.
        word_start: int32 [n], its first word, counted in the window from 0.
        word_end: int32 [n], one past its last word.
        beyond: int64, rising, indices of the entities whose first word is owned by a window but which are not candidate
            spans of it: the window or the sentence ends before them, or their first or last word has no token.
    """

    entity: np.ndarray
    window: np.ndarray
    word_start: np.ndarray
    word_end: np.ndarray
    beyond: np.ndarray


def place_entities(windows: Windows, keys: np.ndarray, first: np.ndarray, length: np.ndarray) -> Placement:
    """Find the window of each entity: the one that owns its first word. Entities of other windows are left out.

    The words "a b c d" have the keys 7 to 10. Window 0 shows all and owns "a b", window 1 shows and owns "c d". Then
    the entities "a b" (first 7, length 2) and "b c d" (8, 3) are in window 0, and "d" (10, 1) is in window 1.

    Args:
        windows: the windows.
        keys: int64 [n_words], a number of each word, the same in all windows; entities are found by it.
        first: int64 [n_entities], the key of the first word of each entity.
        length: int64 [n_entities], words of each entity, at most the longest candidate span.
    """
    owned = np.flatnonzero(windows.word_tag)
    owned = owned[np.argsort(keys[owned], kind="stable")]
    at = np.searchsorted(keys[owned], first)
    here = np.flatnonzero(np.append(keys[owned], np.iinfo(np.int64).min)[at] == first)
    word = owned[at[here]]
    window = np.searchsorted(windows.word_offsets, word, "right") - 1
    last = word + length[here] - 1
    whole = last < windows.word_offsets[window + 1]
    last = np.where(whole, last, word)
    has_token = windows.word_token_end > windows.word_token_start
    # In its window a sentence is one run of words, so the last word is at this place or missing.
    same_sentence = windows.word_sentence[last] == windows.word_sentence[word]
    whole &= same_sentence & has_token[word] & has_token[last]
    beyond, here, word, window, last = here[~whole], here[whole], word[whole], window[whole], last[whole]
    order = np.lexsort((here, word))
    offsets = windows.word_offsets[window]
    return Placement(
        entity=here[order],
        window=window[order],
        word_start=(word - offsets)[order].astype(np.int32),
        word_end=(last + 1 - offsets)[order].astype(np.int32),
        beyond=beyond,
    )


def sentence_runs(windows: Windows) -> np.ndarray:
    """Return the offsets of the runs of words of one sentence in one window, int64 [n_runs + 1].

    Args:
        windows: the windows; run `i` is words `result[i]:result[i + 1]` of their flat `word_*` arrays.
    """
    new_run = np.zeros(len(windows.word_sentence) + 1, np.bool_)
    new_run[1:-1] = windows.word_sentence[1:] != windows.word_sentence[:-1]
    new_run[windows.word_offsets] = True
    return np.flatnonzero(new_run)


def _run_ends(windows: Windows) -> np.ndarray:
    """Return the end of the run of each word, exclusive, int64 [n_words]."""
    runs = sentence_runs(windows)
    return np.repeat(runs[1:], np.diff(runs))

"""Word splitters: words of a text, with character offsets. A model bundle names its splitter.

A splitter cuts one sentence into words, because candidate spans are runs of words. `words.v1` is
made for raw text in any script; `tokenizer.v1` takes the words of the tokenizer's own
pre-tokenizer, as the `span_marker` library does with raw strings.
"""

import unicodedata

import numpy as np
import regex
from tokenizers import Encoding

# Scripts written without spaces: one grapheme is one word, as in character-level NER data.
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_RUN = rf"[[\p{{L}}\p{{M}}\p{{N}}_\u200c\u200d]--[{_UNSPACED}]]"

_SPACED_DIGIT = rf"[\p{{N}}--[{_UNSPACED}]]"
_UNSPACED_DIGIT = rf"[\p{{N}}&&[{_UNSPACED}]]"

_FLAG_LETTERS = "\U0001f1e6-\U0001f1ff"  # faster than the property \p{RI}

# Two alternatives exist only for speed. \X counts flag letters (regional indicators) back to the beginning of their
# run, so 40,000 consecutive flags took 41 s: it now gets only the last flag of a run. At each digit of "1〇1〇1〇…" the
# number pattern would scan to the end of the run and fail. If it fails at one digit of a run, it also fails at the
# following ones, so the run is matched as a whole and then split.
_WORDS_V1 = rf"""
      (?:\p{{L}}\.)+\p{{L}}?(?!{_RUN})          # U.S.  J.  Ph.D is two
    | [{_UNSPACED}]\p{{M}}*                     # one character of an unspaced script
    | \p{{N}}+(?:[.,:]\p{{N}}+)+(?!{_RUN})      # 10,000  3.5  7:30
    MIXED
    | ['’](?:[sStTdDmM]|re|RE|ve|VE|ll|LL)(?!{_RUN})        # clitics stay whole: 's
    | {_RUN}+                                   # letters, marks, digits
    | [{_FLAG_LETTERS}]{{2}}(?=[{_FLAG_LETTERS}])           # a flag before another flag
    | (?![\s\x1c-\x1f])\X                      # anything else, one grapheme: a mark, an emoji
"""
_MIXED = rf"| (?P<mixed>(?:{_SPACED_DIGIT}+{_UNSPACED_DIGIT}+)+\p{{M}}*)  # several words, see `_digits`"
_WORD = regex.compile(_WORDS_V1.replace("MIXED", ""), regex.VERBOSE | regex.VERSION1)
_WORD_OR_MIXED = regex.compile(_WORDS_V1.replace("MIXED", _MIXED), regex.VERBOSE | regex.VERSION1)

_MIXED_DIGITS = regex.compile(rf"(?<={_SPACED_DIGIT}){_UNSPACED_DIGIT}", regex.VERSION1)
_DIGITS = regex.compile(rf"{_SPACED_DIGIT}+|{_UNSPACED_DIGIT}\p{{M}}*", regex.VERSION1)

#: Names that are valid in a bundle's config.
SPLITTERS = ("words.v1", "tokenizer.v1")


def split_words(text: str) -> tuple[np.ndarray, np.ndarray]:
    """Split a text into words (`words.v1`).

    Args:
        text: one sentence.

    Returns:
        (char_start, char_end): int64 arrays [n_words], half-open, in code points of `text`, in
        order, without overlap. Every character outside the words is white space.

    >>> starts, ends = split_words("The U.S. team's 10,000 fans")
    >>> ["The U.S. team's 10,000 fans"[s:e] for s, e in zip(starts, ends)]
    ['The', 'U.S.', 'team', "'s", '10,000', 'fans']
    """
    if not text.isascii() and _MIXED_DIGITS.search(text):
        found = [span for match in _WORD_OR_MIXED.finditer(text) for span in _digits(match, text)]
    else:
        found = [match.span() for match in _WORD.finditer(text)]
    spans = np.array(found, dtype=np.int64).reshape(-1, 2)
    return spans[:, 0], spans[:, 1]


def _digits(match: regex.Match[str], text: str) -> list[tuple[int, int]]:
    """Return the half-open spans, in code points of `text`, of the words in one match of `_WORD_OR_MIXED`.

    A match is one word, or several if it is a run of digits of scripts with and without spaces ("1〇1").
    """
    if match.lastgroup is None:
        return [match.span()]
    return [digits.span() for digits in _DIGITS.finditer(text, *match.span())]


def pretokenized_words(encoding: Encoding, text: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the words that the tokenizer's own pre-tokenizer found in `text` (`tokenizer.v1`).

    Misleading offsets are corrected: white space that sentencepiece-like pre-tokenizers count as part of
    a word is trimmed; characters that a normaliser composed with their neighbour (decomposed accents,
    Hangul) are returned to their word; and words that share characters ("…" is three words after NFKC)
    are merged.

    Args:
        encoding: the tokenizer's encoding of `text`, without special tokens.
        text: one sentence.

    Returns:
        (word_ids, char_start, char_end): int64 [n_tokens], the word of each token; int64 [n_words] twice,
        half-open, in code points of `text`, in order, without overlap. A word without a token has an empty range.
    """
    word_ids = np.array(encoding.word_ids, np.int64)
    if not len(word_ids):
        return word_ids, word_ids.copy(), word_ids.copy()
    words = np.arange(word_ids[-1] + 1)
    offsets = np.array(encoding.offsets, np.int64)
    first = np.searchsorted(word_ids, words, "left")
    last = np.searchsorted(word_ids, words, "right") - 1
    starts = offsets[first, 0]
    ends = np.where(last < first, starts, offsets[last, 1])

    n = len(text)
    solid = ~np.isin(np.frombuffer(text.encode("utf-32-le"), np.uint32), _WHITE_SPACE)
    positions = np.arange(n)
    next_solid = np.append(np.minimum.accumulate(np.where(solid, positions, n)[::-1])[::-1], n)
    after_solid = np.append(0, np.maximum.accumulate(np.where(solid, positions + 1, 0)))
    starts = np.minimum(next_solid[starts], ends)
    ends = np.maximum(starts, np.minimum(ends, after_solid[ends]))

    own = np.append(True, starts[1:] >= np.maximum.accumulate(ends)[:-1])
    groups = np.flatnonzero(own)
    word_ids = (np.cumsum(own) - 1)[word_ids]
    starts, ends = starts[groups], np.maximum.reduceat(ends, groups)
    return word_ids, starts, _grown(text, starts, ends, solid)


def _grown(text: str, starts: np.ndarray, ends: np.ndarray, solid: np.ndarray) -> np.ndarray:
    """Return `ends`, extended over visible characters directly after a word that don't belong to another word."""
    depth = np.zeros(len(text) + 1, np.int64)
    np.add.at(depth, starts, 1)
    np.add.at(depth, ends, -1)
    free = solid & (np.cumsum(depth)[:-1] == 0)
    ends = ends.copy()
    for word in np.flatnonzero((ends > starts) & np.append(free, False)[ends]):
        while ends[word] < len(text) and free[ends[word]] and unicodedata.category(text[ends[word]])[0] != "C":
            ends[word] += 1
    return ends


_WHITE_SPACE = np.array([code for code in range(0x3001) if chr(code).isspace()], np.uint32)

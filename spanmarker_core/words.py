"""Text to words with character offsets. The splitter's name is part of a model bundle.

A splitter cuts one sentence into words, because candidate spans are runs of words. `words.v1` is
made for raw text in any script; `tokenizer.v1` takes the words of the tokenizer's own
pre-tokenizer, which is what the `span_marker` library does with raw strings.
"""

import numpy as np
import regex

# Scripts written without spaces: one grapheme is one word, as in character-level NER data.
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_RUN = rf"[[\p{{L}}\p{{M}}\p{{N}}_\u200c\u200d]--[{_UNSPACED}]]"

_WORDS_V1 = regex.compile(
    rf"""
      (?:\p{{L}}\.)+\p{{L}}?(?!{_RUN})          # U.S.  J.  Ph.D is two
    | [{_UNSPACED}]\p{{M}}*                     # one character of an unspaced script
    | \p{{N}}+(?:[.,:]\p{{N}}+)+(?!{_RUN})      # 10,000  3.5  7:30
    | ['’](?:[sStTdDmM]|re|RE|ve|VE|ll|LL)(?!{_RUN})        # clitics stay whole: 's
    | {_RUN}+                                   # letters, marks, digits
    | (?!\s)\X                                  # anything else, one grapheme: a mark, an emoji
    """,
    regex.VERBOSE | regex.VERSION1,
)

#: Names that a bundle's config may hold.
SPLITTERS = ("words.v1", "tokenizer.v1")


def split_words(text: str) -> tuple[np.ndarray, np.ndarray]:
    """Cut `text` into words (`words.v1`).

    Returns:
        (char_start, char_end): int64 arrays [n_words], half-open, in code points of `text`, in
        order, without overlap. Every character outside the words is white space.

    >>> starts, ends = split_words("The U.S. team's 10,000 fans")
    >>> ["The U.S. team's 10,000 fans"[s:e] for s, e in zip(starts, ends)]
    ['The', 'U.S.', 'team', "'s", '10,000', 'fans']
    """
    spans = np.array([match.span() for match in _WORDS_V1.finditer(text)], dtype=np.int64).reshape(-1, 2)
    return spans[:, 0], spans[:, 1]

"""Sentences as subword tokens, with the place of each word among them and in the text."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from spanmarker_core.arrays.ragged import ragged_offsets


@dataclass(frozen=True, slots=True)
class EncodedSentence:
    """One sentence as subword tokens.

    Attributes:
        token_ids: int32 [n_tokens], no special tokens.
        word_token_start, word_token_end: int32 [n_words], half-open, into token_ids. Equal where a word
            has no token (such as U+2063 in most vocabularies): it keeps its place and no span may
            start or end there.
        word_char_start, word_char_end: int64 [n_words], half-open, in the sentence's text; -1 for words
            that came without text.
        long_words: bool [n_words], words with more tokens than a window can carry, shown as one
            unknown token.
    """

    token_ids: np.ndarray
    word_token_start: np.ndarray
    word_token_end: np.ndarray
    word_char_start: np.ndarray
    word_char_end: np.ndarray
    long_words: np.ndarray


@dataclass(frozen=True, slots=True)
class EncodedSentences:
    """Sentences as flat arrays.

    Attributes:
        flat: the arrays of all sentences end to end; what they say still counts from their own sentence.
        token_offsets, word_offsets: int64 [n + 1]; where each sentence begins in `flat`.
    """

    flat: EncodedSentence
    token_offsets: np.ndarray
    word_offsets: np.ndarray

    def __getitem__(self, number: int) -> EncodedSentence:
        """Return one sentence, without a copy."""
        tokens, words = (slice(*at[number : number + 2]) for at in (self.token_offsets, self.word_offsets))
        arrays = {
            name: getattr(self.flat, name)[tokens if name == "token_ids" else words]
            for name in EncodedSentence.__slots__
        }
        return EncodedSentence(**arrays)

    @staticmethod
    def join(chunks: Iterable[Sequence[EncodedSentence]]) -> "EncodedSentences":
        """Lay sentences end to end, chunk by chunk: of a chunk that was dealt with, only its arrays are held."""
        parts: list[EncodedSentence] = []
        n_tokens, n_words = [], []
        for chunk in chunks:
            n_tokens += [len(sentence.token_ids) for sentence in chunk]
            n_words += [len(sentence.word_token_start) for sentence in chunk]
            parts.append(_end_to_end(chunk))
        offsets = (ragged_offsets(np.array(lengths, np.int64)) for lengths in (n_tokens, n_words))
        return EncodedSentences(_end_to_end(parts), *offsets)


_NOTHING = EncodedSentence(
    *(np.zeros(0, kind) for kind in (np.int32, np.int32, np.int32, np.int64, np.int64, np.bool_))
)


def _end_to_end(parts: Sequence[EncodedSentence]) -> EncodedSentence:
    arrays = ([getattr(part, name) for part in (_NOTHING, *parts)] for name in EncodedSentence.__slots__)
    return EncodedSentence(*(np.concatenate(values) for values in arrays))

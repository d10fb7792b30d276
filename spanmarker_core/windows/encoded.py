"""Sentences as subword tokens, with the position of each word among the tokens and in the text."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from spanmarker_core.arrays.ragged import ragged_offsets


@dataclass(frozen=True, slots=True)
class EncodedSentence:
    """One sentence as subword tokens.

    Attributes:
        token_ids: int32 [n_tokens], without special tokens.
        word_token_start: int32 [n_words], index of the first token of each word in `token_ids`.
        word_token_end: int32 [n_words], exclusive. Equal to the start if the word has no token (such as U+2063
            in most vocabularies): the word keeps its index, and spans can't start or end there.
        word_char_start: int64 [n_words], offset of each word in the sentence's text; -1 for word input.
        word_char_end: int64 [n_words], exclusive; -1 for word input.
        long_words: bool [n_words], True for words with more tokens than a window can hold, shown as one
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
        flat: the concatenated arrays of all sentences; their values remain relative to their sentence.
        token_offsets: int64 [n + 1]; sentence `i` has tokens `token_offsets[i]:token_offsets[i + 1]` of `flat`.
        word_offsets: int64 [n + 1]; sentence `i` has words `word_offsets[i]:word_offsets[i + 1]` of `flat`.
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
        """Concatenate sentences chunk by chunk; only the arrays of processed chunks are kept in memory.

        Args:
            chunks: lists of sentences.
        """
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

"""Sentences of one document -> windows of subword tokens. Context is added, nothing is truncated.

A window is `prefix + tokens + suffix` (such as [CLS] … [SEP]) of at most `max_tokens` tokens. A
sentence that fits gets one window, filled up with its neighbours under the context policy. A longer
one is cut at word boundaries into windows that overlap, so that every candidate span of up to
`entity_max_length` words lies whole inside the window that owns its first word.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from tokenizers import Encoding, Tokenizer

from spanmarker_core.errors import CoreError
from spanmarker_core.ragged import ragged_offsets, ragged_take
from spanmarker_core.words import pretokenized_words, split_words

#: `sentence`: a sentence alone. `document`: its neighbours in the document fill the window.
CONTEXT_POLICIES = ("sentence", "document")


@dataclass(frozen=True, slots=True)
class Context:
    """How much of a document a window shows around the sentence that it tags.

    With policy `document`, sentences are added in turn, next then previous, until the window is full
    (the last one may be cut at a token: it is context only) or the limits are reached.
    `max_prev` and `max_next` count sentences; None is as many as fit. Source: thesis 2.2.4.

    Raises:
        CoreError: `call.unknown_option`, `call.bad_limit`, `call.limit_without_context`.
    """

    policy: str = "sentence"
    max_prev: int | None = None
    max_next: int | None = None

    def __post_init__(self) -> None:
        if self.policy not in CONTEXT_POLICIES:
            raise CoreError(
                "call.unknown_option", option="context", value=self.policy, choices=", ".join(CONTEXT_POLICIES)
            )
        for name in ("max_prev", "max_next"):
            limit = getattr(self, name)
            if limit is None:
                continue
            if self.policy == "sentence":
                raise CoreError("call.limit_without_context")
            if type(limit) is not int or limit < 0:
                raise CoreError("call.bad_limit", name=f"{name}_context", value=limit)


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
class Surroundings:
    """The document that a run of sentences stands in, for their context.

    Attributes:
        token_ids: int32, tokens of the document, perhaps among others.
        bounds: int64 [n_sentences + 1] into token_ids; sentence `i` of the document is
            `token_ids[bounds[i]:bounds[i + 1]]`.
        first: place of the run's first sentence in the document.
    """

    token_ids: np.ndarray
    bounds: np.ndarray
    first: int


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows as flat arrays: values of window `i` are `values[offsets[i]:offsets[i + 1]]`.

    Attributes:
        document: int32 [n], which document a window belongs to (the caller's number).
        token_offsets, token_ids: int64 [n + 1], int32 [n_tokens], special tokens included.
        word_offsets: int64 [n + 1] into the `word_*` arrays.
        word_token_start, word_token_end: int32, half-open, counted in the window from 0.
        word_char_start, word_char_end: int64, half-open, in the document's text; -1 without text.
        word_sentence: int32, the sentence's number in its document.
        word_index: int32, the word's number in its sentence.
        word_tag: bool, whether candidate spans that begin here belong to this window. Over the windows
            of a document it is true exactly once a word.
        word_long: bool, see `EncodedSentence.long_words`.
    """

    document: np.ndarray
    token_offsets: np.ndarray
    token_ids: np.ndarray
    word_offsets: np.ndarray
    word_token_start: np.ndarray
    word_token_end: np.ndarray
    word_char_start: np.ndarray
    word_char_end: np.ndarray
    word_sentence: np.ndarray
    word_index: np.ndarray
    word_tag: np.ndarray
    word_long: np.ndarray

    def __len__(self) -> int:
        return len(self.document)

    def take(self, indices: np.ndarray) -> "Windows":
        """Return the windows at `indices`, in that order."""
        tokens, token_offsets = ragged_take(self.token_offsets, indices)
        words, word_offsets = ragged_take(self.word_offsets, indices)
        values = {name: getattr(self, name)[words] for name in _WORD_FIELDS}
        return Windows(
            document=self.document[indices],
            token_offsets=token_offsets,
            token_ids=self.token_ids[tokens],
            word_offsets=word_offsets,
            **values,
        )

    @staticmethod
    def concatenate(parts: Sequence["Windows"]) -> "Windows":
        """Join windows end to end."""
        values = {
            field.name: np.concatenate([getattr(part, field.name) for part in parts])
            for field in fields(Windows)
            if not field.name.endswith("offsets")
        }
        offsets = {
            name: ragged_offsets(np.concatenate([np.diff(getattr(part, name)) for part in parts]))
            for name in ("token_offsets", "word_offsets")
        }
        return Windows(**values, **offsets)


_WORD_FIELDS = tuple(f.name for f in fields(Windows) if f.name.startswith("word_") and f.name != "word_offsets")


class Packer:
    """Encodes sentences with a bundle's tokenizer and packs them into windows. Needs no model.

    Args:
        tokenizer: the bundle's `tokenizers.Tokenizer`.
        prefix, suffix: ids of the special tokens around a text.
        unknown_id: id of the token that stands for a word too long for a window.
        max_tokens: tokens of a window, special tokens included.
        entity_max_length: words of the longest candidate span.
        splitter: one of `words.SPLITTERS`, how raw text becomes words.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        prefix: Sequence[int],
        suffix: Sequence[int],
        unknown_id: int,
        max_tokens: int,
        entity_max_length: int,
        splitter: str,
    ) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        # A text that holds "[SEP]" or "<start>" is text, not a command to the model.
        tokenizer.encode_special_tokens = True
        self.tokenizer = tokenizer
        self.prefix = np.asarray(prefix, np.int32)
        self.suffix = np.asarray(suffix, np.int32)
        self.unknown_id = unknown_id
        self.max_tokens = max_tokens
        self.capacity = max_tokens - len(self.prefix) - len(self.suffix)
        self.entity_max_length = entity_max_length
        self.splitter = splitter

    def encode_words(self, sentences: Sequence[Sequence[str]]) -> list[EncodedSentence]:
        """Encode sentences that are lists of words."""
        encodings = self.tokenizer.encode_batch(
            [list(words) for words in sentences], is_pretokenized=True, add_special_tokens=False
        )
        unknown = [np.full(len(words), -1, np.int64) for words in sentences]
        return [self._encoded(*_ids(e), chars, chars) for e, chars in zip(encodings, unknown, strict=True)]

    def encode_texts(self, texts: Sequence[str]) -> list[EncodedSentence]:
        """Encode sentences that are raw text, cut into words by the bundle's splitter."""
        if self.splitter == "tokenizer.v1":
            encodings = self.tokenizer.encode_batch(list(texts), add_special_tokens=False)
            return [
                self._encoded(np.array(e.ids, np.int32), *pretokenized_words(e, text))
                for e, text in zip(encodings, texts, strict=True)
            ]
        chars = [split_words(text) for text in texts]
        words = [
            [text[start:end] for start, end in zip(*bounds, strict=True)]
            for text, bounds in zip(texts, chars, strict=True)
        ]
        encodings = self.tokenizer.encode_batch(words, is_pretokenized=True, add_special_tokens=False)
        return [self._encoded(*_ids(e), *bounds) for e, bounds in zip(encodings, chars, strict=True)]

    def _encoded(
        self, token_ids: np.ndarray, word_ids: np.ndarray, char_start: np.ndarray, char_end: np.ndarray
    ) -> EncodedSentence:
        words = np.arange(len(char_start))
        start = np.searchsorted(word_ids, words, "left").astype(np.int32)
        end = np.searchsorted(word_ids, words, "right").astype(np.int32)
        # Half a window for one word leaves room for a neighbour on either side.
        long_words = end - start > max(self.capacity // 2, 1)
        if long_words.any():
            keep = ~np.isin(word_ids, np.flatnonzero(long_words)) | np.isin(np.arange(len(word_ids)), start[long_words])
            token_ids[start[long_words]] = self.unknown_id
            token_ids, word_ids = token_ids[keep], word_ids[keep]
            start = np.searchsorted(word_ids, words, "left").astype(np.int32)
            end = np.searchsorted(word_ids, words, "right").astype(np.int32)
        # Byte-level pre-tokenizers make a word of surplus white space: no entity begins or ends there.
        blank = (char_start >= 0) & (char_start == char_end)
        end[blank] = start[blank]
        return EncodedSentence(token_ids, start, end, char_start, char_end, long_words)

    def pack(
        self,
        sentences: Sequence[EncodedSentence],
        context: Context,
        *,
        document: int = 0,
        sentence_ids: Sequence[int] | None = None,
        char_starts: Sequence[int] | None = None,
        within: Surroundings | None = None,
    ) -> Windows:
        """Pack the sentences of one document, in order, into windows.

        Args:
            sentences: the document's sentences; those without a word give no window.
            context: what a window shows around its sentence.
            document: number that the windows carry.
            sentence_ids: numbers that the words carry; by default 0, 1, 2, …
            char_starts: where each sentence begins in the document's text; None for word input.
            within: the document, where `sentences` are a run of it; None where they are all of it.
        """
        ids = range(len(sentences)) if sentence_ids is None else sentence_ids
        if within is None:
            tokens = np.concatenate([s.token_ids for s in sentences]) if sentences else np.zeros(0, np.int32)
            within = Surroundings(tokens, ragged_offsets(np.array([len(s.token_ids) for s in sentences], np.int64)), 0)
        bounds = within.bounds[within.first :]
        pieces: list[_Piece] = []
        for number, sentence in enumerate(sentences):
            first, last = int(bounds[number]), int(bounds[number + 1])
            n_words = len(sentence.word_token_start)
            if n_words == 0:
                continue
            if last - first <= self.capacity:
                left, right = first, last
                if context.policy == "document":
                    left, right = self._context(within.bounds, within.first + number, context)
                pieces.append(_Piece(number, left, right, 0, n_words, 0, n_words))
            else:
                pieces.extend(self._cut(sentence, number, first))
        return self._windows(pieces, sentences, within.token_ids, bounds, document, ids, char_starts)

    def _context(self, bounds: np.ndarray, number: int, context: Context) -> tuple[int, int]:
        """Return the document's tokens [left, right) that sentence `number` is shown in."""
        left, right = int(bounds[number]), int(bounds[number + 1])
        n_sentences = len(bounds) - 1
        after = n_sentences if context.max_next is None else min(n_sentences, number + 1 + context.max_next)
        before = 0 if context.max_prev is None else max(0, number - context.max_prev)
        # The tokens that the limits allow; sentences are taken whole from both ends until the window is full.
        lowest, highest = int(bounds[before]), int(bounds[after])
        while right - left < self.capacity and (right < highest or left > lowest):
            if right < highest:
                # The end of the next sentence that has tokens: thousands without any cost one step.
                following = int(bounds[np.searchsorted(bounds, right, "right")])
                right = min(following, left + self.capacity)
            if left > lowest and right - left < self.capacity:
                preceding = int(bounds[np.searchsorted(bounds, left, "left") - 1])
                left = max(preceding, right - self.capacity)
        return left, right

    def _cut(self, sentence: EncodedSentence, number: int, first: int) -> list["_Piece"]:
        """Cut a sentence longer than a window into overlapping pieces that own each word once.

        A piece [start, end) owns the words whose spans of up to `entity_max_length` words end in it when they
        begin there, and starts as many words before its first own word, for context on both sides. A span
        of more tokens than a window has can't be shown: only its shorter prefixes are candidates.
        """
        token_start, token_end = sentence.word_token_start, sentence.word_token_end
        n_words, reach = len(token_start), self.entity_max_length
        pieces = []
        own = 0
        while own < n_words:
            # Context before the own words takes at most a quarter of the window, for words of many tokens.
            earliest = int(np.searchsorted(token_start, token_start[own] - self.capacity // 4, "left"))
            start = min(own, max(own - reach, earliest, 0))
            end = int(np.searchsorted(token_end, token_start[start] + self.capacity, "right"))
            if end < n_words and end - reach < own:  # Words of many tokens: the spans need the context's place.
                start = own
                end = int(np.searchsorted(token_end, token_start[start] + self.capacity, "right"))
            own_end = n_words if end >= n_words else max(own + 1, end - reach + 1)
            pieces.append(
                _Piece(
                    number,
                    first + int(token_start[start]),
                    first + int(token_end[end - 1]),
                    start,
                    end,
                    own,
                    own_end,
                )
            )
            own = own_end
        return pieces

    def _windows(
        self,
        pieces: list["_Piece"],
        sentences: Sequence[EncodedSentence],
        tokens: np.ndarray,
        bounds: np.ndarray,
        document: int,
        ids: Sequence[int],
        char_starts: Sequence[int] | None,
    ) -> Windows:
        token_ids = [np.zeros(0, np.int32)]
        columns: dict[str, list[np.ndarray]] = {name: [np.zeros(0, kind)] for name, kind in _WORD_TYPES.items()}
        for piece in pieces:
            sentence = sentences[piece.sentence]
            words = slice(piece.word_start, piece.word_end)
            count = piece.word_end - piece.word_start
            token_ids += [self.prefix, tokens[piece.token_start : piece.token_end], self.suffix]
            shift = np.int32(len(self.prefix) + bounds[piece.sentence] - piece.token_start)
            chars = 0 if char_starts is None else char_starts[piece.sentence]
            index = np.arange(piece.word_start, piece.word_end, dtype=np.int32)
            columns["word_token_start"].append(sentence.word_token_start[words] + shift)
            columns["word_token_end"].append(sentence.word_token_end[words] + shift)
            columns["word_char_start"].append(sentence.word_char_start[words] + chars)
            columns["word_char_end"].append(sentence.word_char_end[words] + chars)
            columns["word_sentence"].append(np.full(count, ids[piece.sentence], np.int32))
            columns["word_index"].append(index)
            columns["word_tag"].append((index >= piece.own_start) & (index < piece.own_end))
            columns["word_long"].append(sentence.long_words[words])
        edges = len(self.prefix) + len(self.suffix)
        n_tokens = np.array([piece.token_end - piece.token_start + edges for piece in pieces], np.int64)
        n_words = np.array([piece.word_end - piece.word_start for piece in pieces], np.int64)
        return Windows(
            document=np.full(len(pieces), document, np.int32),
            token_offsets=ragged_offsets(n_tokens),
            token_ids=np.concatenate(token_ids),
            word_offsets=ragged_offsets(n_words),
            **{name: np.concatenate(parts) for name, parts in columns.items()},
        )


_WORD_TYPES = {
    "word_token_start": np.int32,
    "word_token_end": np.int32,
    "word_char_start": np.int64,
    "word_char_end": np.int64,
    "word_sentence": np.int32,
    "word_index": np.int32,
    "word_tag": np.bool_,
    "word_long": np.bool_,
}


@dataclass(frozen=True, slots=True)
class _Piece:
    """A window to be: tokens of the document, words of one sentence, the words it owns. All half-open."""

    sentence: int
    token_start: int
    token_end: int
    word_start: int
    word_end: int
    own_start: int
    own_end: int


def _ids(encoding: Encoding) -> tuple[np.ndarray, np.ndarray]:
    """Return (token ids, the word of each token)."""
    return np.array(encoding.ids, np.int32), np.array(encoding.word_ids, np.int64)

"""Sentences of one document -> windows of subword tokens. Context is added, nothing is truncated.

A window is `prefix + tokens + suffix` (such as [CLS] … [SEP]) of at most `max_tokens` tokens. A
sentence that fits is whole in one window, filled up with its neighbours under the context policy, and may
share it with them (see `window_plan`). A longer one is cut at word boundaries into windows that overlap, so
that every candidate span of up to `entity_max_length` words lies whole inside the window that owns its first word.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from tokenizers import Encoding, Tokenizer

from spanmarker_core.arrays.ragged import ragged_offsets, ragged_ranges, ragged_take
from spanmarker_core.errors import CoreError, panics_as_errors
from spanmarker_core.text.words import pretokenized_words, split_words
from spanmarker_core.windows.encoded import EncodedSentence, EncodedSentences
from spanmarker_core.windows.plan import Plan, plan_blocks, plan_sentences, plan_surroundings

#: `sentence`: a sentence alone. `document`: its neighbours in the document fill the window, on both sides.
#: `block`: consecutive sentences fill the window and all are tagged in it, with a margin of context.
CONTEXT_POLICIES = ("sentence", "document", "block")


@dataclass(frozen=True, slots=True)
class Context:
    """How much of a document a window shows around the sentences that it tags.

    With policy `document`, sentences are added in turn, next then previous, until the window is full
    (the last one may be cut at a token: it is context only) or the limits are reached.
    `max_prev` and `max_next` count sentences; None is as many as fit. Source: thesis 2.2.4. Sentences in the
    middle of a long document have a window each.

    With policy `block` they share windows there too: a document costs about its own length once, at the
    price of less context for sentences near a window's ends.

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
            if self.policy != "document":
                raise CoreError("call.limit_without_context")
            if type(limit) is not int or limit < 0:
                raise CoreError("call.bad_limit", name=f"{name}_context", value=limit)

    def __str__(self) -> str:
        sides = (("before", self.max_prev), ("after", self.max_next))
        limits = [f"{f'up to {limit}' if limit else 'none'} {side}" for side, limit in sides if limit is not None]
        return f"context {self.policy!r}" + (f" ({', '.join(limits)})" if limits else "")


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
        encodings = self._encode_batch([list(words) for words in sentences], is_pretokenized=True)
        unknown = [np.full(len(words), -1, np.int64) for words in sentences]
        return [self._encoded(*_ids(e), chars, chars) for e, chars in zip(encodings, unknown, strict=True)]

    def encode_texts(self, texts: Sequence[str]) -> list[EncodedSentence]:
        """Encode sentences that are raw text, cut into words by the bundle's splitter."""
        if self.splitter == "tokenizer.v1":
            encodings = self._encode_batch(list(texts), is_pretokenized=False)
            return [
                self._encoded(np.array(e.ids, np.int32), *pretokenized_words(e, text))
                for e, text in zip(encodings, texts, strict=True)
            ]
        chars = [split_words(text) for text in texts]
        words = [
            [text[start:end] for start, end in zip(*bounds, strict=True)]
            for text, bounds in zip(texts, chars, strict=True)
        ]
        encodings = self._encode_batch(words, is_pretokenized=True)
        return [self._encoded(*_ids(e), *bounds) for e, bounds in zip(encodings, chars, strict=True)]

    def _encode_batch(self, inputs: list[Any], is_pretokenized: bool) -> list[Encoding]:
        with panics_as_errors("tokenizers"):
            return self.tokenizer.encode_batch(inputs, is_pretokenized=is_pretokenized, add_special_tokens=False)

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
    ) -> Windows:
        """Pack the sentences of one document, in order, into windows.

        Args:
            sentences: all the document's sentences; those without a word give no window.
            context: what a window shows around its sentences.
            document: number that the windows carry.
            sentence_ids: numbers that the words carry; by default 0, 1, 2, …
            char_starts: where each sentence begins in the document's text; None for word input.
        """
        joined = EncodedSentences.join([sentences])
        windows = self.windows(
            joined,
            self.plan(joined.token_offsets, np.array([0, len(sentences)]), context),
            sentence_ids=np.arange(len(sentences)) if sentence_ids is None else np.asarray(sentence_ids, np.int64),
            char_starts=None if char_starts is None else np.asarray(char_starts, np.int64),
        )
        return replace(windows, document=np.full(len(windows), document, np.int32))

    def plan(self, bounds: np.ndarray, edges: np.ndarray, context: Context) -> Plan:
        """Plan the windows of whole documents.

        Args:
            bounds: int64 [n_sentences + 1], where the tokens of each sentence begin.
            edges: int64 [n_documents + 1], where the sentences of each document begin.
            context: what a window shows around its sentences.
        """
        if context.policy == "sentence":
            return plan_sentences(bounds, edges)
        if context.policy == "block":
            return plan_blocks(bounds, edges, self.capacity)
        return plan_surroundings(bounds, edges, self.capacity, context.max_prev, context.max_next)

    def windows(
        self,
        sentences: EncodedSentences,
        plan: Plan,
        *,
        sentence_ids: np.ndarray,
        char_starts: np.ndarray | None = None,
    ) -> Windows:
        """Make the windows of a plan, or of any part of one.

        Args:
            sentences: all sentences that were planned.
            plan: the windows to make. Those of sentences without a word are left out.
            sentence_ids: int64 [n_sentences], numbers that the words carry.
            char_starts: int64 [n_sentences], where each begins in its document's text; None for word input.
        """
        flat, bounds = sentences.flat, sentences.token_offsets
        pieces = self._pieces(sentences, plan)
        words, word_offsets = ragged_ranges(pieces.word_start, pieces.word_end)
        window = np.repeat(np.arange(len(pieces)), np.diff(word_offsets))
        sentence = np.searchsorted(sentences.word_offsets, words, "right") - 1
        shift = (len(self.prefix) + bounds[sentence] - pieces.token_start[window]).astype(np.int32)
        chars = 0 if char_starts is None else char_starts[sentence]
        token_ids = [np.zeros(0, np.int32)]
        for start, end in zip(pieces.token_start.tolist(), pieces.token_end.tolist(), strict=True):
            token_ids += [self.prefix, flat.token_ids[start:end], self.suffix]
        n_special = len(self.prefix) + len(self.suffix)
        return Windows(
            document=pieces.document.astype(np.int32),
            token_offsets=ragged_offsets(pieces.token_end - pieces.token_start + n_special),
            token_ids=np.concatenate(token_ids),
            word_offsets=word_offsets,
            word_token_start=flat.word_token_start[words] + shift,
            word_token_end=flat.word_token_end[words] + shift,
            word_char_start=flat.word_char_start[words] + chars,
            word_char_end=flat.word_char_end[words] + chars,
            word_sentence=sentence_ids[sentence].astype(np.int32),
            word_index=(words - sentences.word_offsets[sentence]).astype(np.int32),
            word_tag=(words >= pieces.own_start[window]) & (words < pieces.own_end[window]),
            word_long=flat.long_words[words],
        )

    def _pieces(self, sentences: EncodedSentences, plan: Plan) -> "_Pieces":
        """Return the plan's windows, those of sentences longer than a window cut, those without words left out."""
        word_start = sentences.word_offsets[plan.sentence_start]
        word_end = sentences.word_offsets[plan.sentence_end]
        whole = _Pieces(plan.document, plan.token_start, plan.token_end, word_start, word_end, word_start, word_end)
        parts, done = [], 0
        for row in np.flatnonzero(plan.token_end - plan.token_start > self.capacity).tolist():
            parts += [whole[done:row], self._cut(sentences[plan.sentence_start[row]], whole, row)]
            done = row + 1
        parts.append(whole[done:])
        pieces = _Pieces(*(np.concatenate([getattr(part, name) for part in parts]) for name in _Pieces.__slots__))
        return pieces[pieces.word_end > pieces.word_start]

    def _cut(self, sentence: EncodedSentence, whole: "_Pieces", row: int) -> "_Pieces":
        """Cut a sentence longer than a window into overlapping pieces that own each word once.

        A piece [start, end) owns the words whose spans of up to `entity_max_length` words end in it when they
        begin there, and starts as many words before its first own word, for context on both sides. A span
        of more tokens than a window has can't be shown: only its shorter prefixes are candidates.
        """
        token_start, token_end = sentence.word_token_start, sentence.word_token_end
        n_words, reach = len(token_start), self.entity_max_length
        cuts = []
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
            cuts.append((token_start[start], token_end[end - 1], start, end, own, own_end))
            own = own_end
        first_token, first_word = whole.token_start[row], whole.word_start[row]
        first = np.array([[first_token, first_token, first_word, first_word, first_word, first_word]])
        return _Pieces(np.full(len(cuts), whole.document[row]), *(np.array(cuts, np.int64) + first).T)


@dataclass(frozen=True, slots=True)
class _Pieces:
    """Windows to be: int64 [n], half-open ranges of all tokens and words; the words that it shows and those it owns."""

    document: np.ndarray
    token_start: np.ndarray
    token_end: np.ndarray
    word_start: np.ndarray
    word_end: np.ndarray
    own_start: np.ndarray
    own_end: np.ndarray

    def __len__(self) -> int:
        return len(self.document)

    def __getitem__(self, rows: slice | np.ndarray) -> "_Pieces":
        return _Pieces(*(getattr(self, name)[rows] for name in self.__slots__))


def _ids(encoding: Encoding) -> tuple[np.ndarray, np.ndarray]:
    """Return (token ids, the word of each token)."""
    return np.array(encoding.ids, np.int32), np.array(encoding.word_ids, np.int64)

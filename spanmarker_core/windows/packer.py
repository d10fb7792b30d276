"""Packing the sentences of a document into windows of subword tokens. Context is added, nothing is truncated.

A window is `prefix + tokens + suffix` (such as [CLS] … [SEP]) of at most `max_tokens` tokens. A sentence that
fits is complete in one window, which the context policy fills with neighbouring sentences; several sentences may
share a window. A longer sentence is cut at word boundaries into overlapping windows, so that every candidate span of
up to `entity_max_length` words is entirely inside the window that owns its first word.
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

#: `sentence`: no context. `document`: neighbours in the document fill the window on both sides of a sentence.
#: `block`: consecutive sentences fill the window and are all tagged in it, with a margin of context.
CONTEXT_POLICIES = ("sentence", "document", "block")


@dataclass(frozen=True, slots=True)
class Context:
    """The context policy: how much of a document a window shows around the sentences that it tags.

    With policy `document`, sentences are added alternately, next then previous, until the window is full
    (the last one may be cut at a token: it is context only) or the limits are reached (thesis 2.2.4).
    In the middle of a long document, each sentence has its own window.

    With policy `block`, sentences share windows there too: the cost of a document is roughly its length,
    but sentences near the ends of a window have less context.

    Attributes:
        policy: one of `CONTEXT_POLICIES`.
        max_prev: sentences of context before, for policy `document`; None for as many as fit.
        max_next: sentences of context after, for policy `document`; None for as many as fit.

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
        document: int32 [n], the caller's number of the document that each window belongs to.
        token_offsets: int64 [n + 1] into `token_ids`.
        token_ids: int32 [n_tokens], special tokens included.
        word_offsets: int64 [n + 1] into the `word_*` arrays, which have n_words values each.
        word_token_start: int32, index of the word's first token in the window, from 0.
        word_token_end: int32, index of its last token in the window plus one.
        word_char_start: int64, offset of the word in the document's text; -1 without text.
        word_char_end: int64, exclusive, in the document's text; -1 without text.
        word_sentence: int32, the sentence's number in its document.
        word_index: int32, the word's number in its sentence.
        word_tag: bool, whether the window owns the candidate spans that begin at the word. Each word of a
            document is owned by exactly one of its windows.
        word_long: bool, whether the word had more tokens than a window can hold and is shown as one unknown token.
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
        """Return the windows at the given indices, in that order.

        Args:
            indices: int64, indices of windows.
        """
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
        """Concatenate windows.

        Args:
            parts: at least one.
        """
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
    """Encoder and packer of sentences, built from a bundle's tokenizer. Needs no model.

    Args:
        tokenizer: the bundle's `tokenizers.Tokenizer`.
        prefix: ids of the special tokens before a text.
        suffix: ids of the special tokens after a text.
        unknown_id: id of the token that replaces a word too long for a window.
        max_tokens: maximum tokens per window, special tokens included.
        entity_max_length: maximum words per candidate span.
        splitter: word splitter for raw text, "words.v1" or "tokenizer.v1".
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
        # "[SEP]" or "<start>" in a text is plain text, not a special token.
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
        """Encode sentences that are lists of words.

        Args:
            sentences: the words of each sentence.

        Raises:
            CoreError: `library.panicked`.
        """
        encodings = self._encode_batch([list(words) for words in sentences], is_pretokenized=True)
        unknown = [np.full(len(words), -1, np.int64) for words in sentences]
        return [self._encoded(*_ids(e), chars, chars) for e, chars in zip(encodings, unknown, strict=True)]

    def encode_texts(self, texts: Sequence[str]) -> list[EncodedSentence]:
        """Encode sentences that are raw text, split into words by the bundle's splitter.

        Args:
            texts: the text of each sentence.

        Raises:
            CoreError: `library.panicked`.
        """
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
        # At most half a window for one word leaves room for a neighbour on either side.
        long_words = end - start > max(self.capacity // 2, 1)
        if long_words.any():
            keep = ~np.isin(word_ids, np.flatnonzero(long_words)) | np.isin(np.arange(len(word_ids)), start[long_words])
            token_ids[start[long_words]] = self.unknown_id
            token_ids, word_ids = token_ids[keep], word_ids[keep]
            start = np.searchsorted(word_ids, words, "left").astype(np.int32)
            end = np.searchsorted(word_ids, words, "right").astype(np.int32)
        # Byte-level pre-tokenizers turn extra white space into words: no entity begins or ends there.
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
        """Pack the sentences of one document into windows.

        Args:
            sentences: all sentences of the document, in order; those without words produce no window.
            context: the context policy.
            document: value of `Windows.document`.
            sentence_ids: number of each sentence, for `Windows.word_sentence`; by default 0, 1, 2, …
            char_starts: offset of each sentence in the document's text; None for word input.
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
            bounds: int64 [n_sentences + 1]; sentence `i` is tokens `bounds[i]:bounds[i + 1]`.
            edges: int64 [n_documents + 1]; document `d` is sentences `edges[d]:edges[d + 1]`.
            context: the context policy.
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
        """Build the windows of a plan, or of a part of one.

        Args:
            sentences: all sentences that the plan was made for.
            plan: the windows to build. Windows of sentences without words are left out.
            sentence_ids: int64 [n_sentences], number of each sentence, for `Windows.word_sentence`.
            char_starts: int64 [n_sentences], offset of each sentence in its document's text; None for word input.
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
        """Return the plan's windows, with sentences longer than a window cut, and without windows of no words."""
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

        A piece [start, end) owns each word for which all spans of up to `entity_max_length` words that begin
        there also end in the piece. It starts the same number of words before its first own word, for context
        on both sides. A span with more tokens than a window holds is not a candidate; its shorter prefixes are.
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
            if end < n_words and end - reach < own:  # Words of many tokens: the spans need the space of the context.
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
    """Planned windows: int64 [n] arrays of half-open ranges into all tokens and words (words shown, words owned)."""

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

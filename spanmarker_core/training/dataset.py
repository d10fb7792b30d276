"""What a training run learns from: windows and the entities in them, read pool by pool, and an index of sizes."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol, runtime_checkable

import numpy as np

from spanmarker_core.data import Sentence
from spanmarker_core.data.summary import DataSummary, summarise
from spanmarker_core.data.windows import pack_annotated
from spanmarker_core.errors import CoreError
from spanmarker_core.spans.candidates import count_candidates
from spanmarker_core.windows.packer import Context, Packer, Windows


@dataclass(frozen=True, slots=True)
class Gold:
    """The entities of some windows that are candidate spans there, each once, in the window that owns its first word.

    Attributes:
        window: int64 [n], rising: which window.
        word_start, word_end: int32 [n], half-open, words of that window counted from 0.
        label: int32 [n], into the source's `labels`. Spans may nest, cross, or stand here with several labels.
    """

    window: np.ndarray
    word_start: np.ndarray
    word_end: np.ndarray
    label: np.ndarray


@runtime_checkable
class TrainingWindows(Protocol):
    """Windows to learn from. What a step needs of them to be planned is in memory; they are read a pool at a time.

    Attributes:
        n_tokens: int32 [n], tokens of each window.
        n_candidates: int64 [n], its candidate spans, at least one: windows without any are left out.
        pool_offsets: int64 [n_pools + 1]: windows that are read together.
        labels: sorted, without "O".
        summary: of the data.
        digest: of content and of how it was packed: what a run that goes on compares.
    """

    n_tokens: np.ndarray
    n_candidates: np.ndarray
    pool_offsets: np.ndarray
    labels: list[str]
    summary: DataSummary
    digest: str

    def read(self, pool: int) -> tuple[Windows, Gold]:
        """Return the windows of a pool and what is in them."""
        ...

    def names(self, windows: np.ndarray) -> list[str]:
        """Say where windows are from, such as "document d1, sentence 3", for messages."""
        ...


class SentenceWindows:
    """Windows of annotated sentences in memory, as one pool.

    Args:
        sentences: annotated; the sentences of a document next to each other, in order.
        packer: encodes and packs them.
        context: what a window shows around its sentence.
        labels: classes without "O", sorted; None takes those that the sentences have.

    Attributes:
        unreachable: entities of at most `entity_max_length` words that no window holds as a candidate: they have too
            many tokens, or none at an edge.
        spans_of_several_labels: one class a span can be learned, the first by name.

    Raises:
        CoreError: `data.unknown_label`, `data.duplicate_sentence`, `data.no_windows`.
    """

    def __init__(
        self, sentences: Sequence[Sentence], packer: Packer, context: Context, labels: Sequence[str] | None = None
    ) -> None:
        check_distinct_sentences(sentences)
        self._sentences = sentences
        self.summary = summarise(sentences)
        self.labels = sorted(self.summary.labels) if labels is None else list(labels)
        self.digest = sentences_digest(sentences)
        windows = pack_annotated(sentences, packer, context)
        n_candidates = count_candidates(windows, packer.entity_max_length)
        with_candidates = np.flatnonzero(n_candidates)
        if not len(with_candidates):
            raise CoreError("data.no_windows", path="the training data")
        self._windows = windows.take(with_candidates)
        self.n_tokens = np.diff(self._windows.token_offsets).astype(np.int32)
        self.n_candidates = n_candidates[with_candidates]
        self.pool_offsets = np.array([0, len(self._windows)])
        entities = self._entities(packer.entity_max_length)
        same_span = (entities[1:, :3] == entities[:-1, :3]).all(axis=1)
        self.spans_of_several_labels = int(same_span.sum())
        self._gold = _gold(self._windows, entities)
        self.unreachable = len(entities) - len(self._gold.window)

    def _entities(self, limit: int) -> np.ndarray:
        """Return (sentence, start, end, label) of the entities of at most `limit` words, sorted, int64 [n, 4]."""
        label_index = {label: index for index, label in enumerate(self.labels)}
        rows = []
        for number, sentence in enumerate(self._sentences):
            for entity in sentence.entities:
                if entity.label not in label_index:
                    raise CoreError(
                        "data.unknown_label",
                        path=_name(sentence),
                        label=entity.label,
                        labels=", ".join(self.labels),
                    )
                if entity.end - entity.start <= limit:
                    rows.append((number, entity.start, entity.end, label_index[entity.label]))
        return np.array(sorted(rows), np.int64).reshape(-1, 4)

    def read(self, pool: int) -> tuple[Windows, Gold]:
        """Return all windows: there is one pool."""
        return self._windows, self._gold

    def names(self, windows: np.ndarray) -> list[str]:
        """Say which sentence each window shows first of those that it is there for."""
        owned = np.flatnonzero(self._windows.word_tag)
        first = owned[np.searchsorted(owned, self._windows.word_offsets[windows])]
        return [_name(self._sentences[number]) for number in self._windows.word_sentence[first].tolist()]


def _gold(windows: Windows, entities: np.ndarray) -> Gold:
    """Place entities (sentence, start, end, label; int64 [n, 4], sorted) in the windows that own their first words."""
    owned = np.flatnonzero(windows.word_tag)
    keys = (windows.word_sentence[owned].astype(np.int64) << np.int64(32)) + windows.word_index[owned]
    by_key = np.argsort(keys)
    wanted = (entities[:, 0] << np.int64(32)) + entities[:, 1]
    place = np.searchsorted(keys[by_key], wanted)
    found = np.flatnonzero(place < len(keys))
    found = found[keys[by_key[place[found]]] == wanted[found]]
    first = owned[by_key[place[found]]]
    length = entities[found, 2] - entities[found, 1]
    window = np.searchsorted(windows.word_offsets, first, "right") - 1
    last = first + length - 1
    whole = last < windows.word_offsets[window + 1]
    found, first, last, window = found[whole], first[whole], last[whole], window[whole]
    has_token = windows.word_token_end > windows.word_token_start
    # Words of a sentence stand in its window without a gap, so its last word is where it should be, or another's.
    same = windows.word_sentence[last] == windows.word_sentence[first]
    kept = same & has_token[first] & has_token[last]
    found, first, last, window = found[kept], first[kept], last[kept], window[kept]
    order = np.lexsort((entities[found, 3], last, first))
    start = windows.word_offsets[window]
    return Gold(
        window=window[order],
        word_start=(first - start)[order].astype(np.int32),
        word_end=(last + 1 - start)[order].astype(np.int32),
        label=entities[found, 3][order].astype(np.int32),
    )


def check_distinct_sentences(sentences: Sequence[Sentence]) -> None:
    """Refuse data in which two sentences have the same ids: their entities could not be told apart.

    Raises:
        CoreError: `data.duplicate_sentence`.
    """
    seen = set()
    for sentence in sentences:
        ids = (sentence.document_id, sentence.sentence_id)
        if ids in seen:
            raise CoreError("data.duplicate_sentence", name=_name(sentence))
        seen.add(ids)


def sentences_digest(sentences: Sequence[Sentence]) -> str:
    """Return a digest of sentences, their ids and entities."""
    digest = blake2b(digest_size=16)
    for sentence in sentences:
        entities = [(entity.start, entity.end, entity.label) for entity in sentence.entities]
        row = (sentence.document_id, sentence.sentence_id, sentence.words, entities)
        digest.update(json.dumps(row, separators=(",", ":")).encode())
    return digest.hexdigest()


def _name(sentence: Sentence) -> str:
    return f"document {sentence.document_id}, sentence {sentence.sentence_id}"

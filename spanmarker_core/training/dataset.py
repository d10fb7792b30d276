"""Training data: windows with their entities, read pool by pool, and the sizes of all windows in memory."""

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
from spanmarker_core.spans.candidates import count_candidates, place_entities
from spanmarker_core.windows.packer import Context, Packer, Windows


@dataclass(frozen=True, slots=True)
class Gold:
    """Entities that are candidate spans of some windows, each once, in the window that owns its first word.

    Attributes:
        window: int64 [n], rising, index of the window.
        word_start: int32 [n], first word, counted in the window from 0.
        word_end: int32 [n], one past the last word.
        label: int32 [n], index into `labels` of the data. Spans may nest, cross, or occur with several labels.
    """

    window: np.ndarray
    word_start: np.ndarray
    word_end: np.ndarray
    label: np.ndarray


@runtime_checkable
class TrainingWindows(Protocol):
    """Training windows, read one pool at a time. The sizes needed to plan steps are in memory.

    Attributes:
        n_tokens: int32 [n], number of tokens of each window.
        n_candidates: int64 [n], number of candidate spans of each window, at least one: windows without any are
            omitted.
        pool_offsets: int64 [n_pools + 1], bounds of the pools, the windows that are read together.
        labels: entity labels, sorted, without "O".
        summary: summary of the data.
        digest: digest of the content and of the packing, by which a resumed run recognises its data.
    """

    n_tokens: np.ndarray
    n_candidates: np.ndarray
    pool_offsets: np.ndarray
    labels: list[str]
    summary: DataSummary
    digest: str

    def read(self, pool: int) -> tuple[Windows, Gold]:
        """Read a pool.

        Args:
            pool: number of the pool.

        Returns:
            Its windows and their entities.
        """
        ...

    def names(self, windows: np.ndarray) -> list[str]:
        """Describe the origin of windows for messages, such as "document d1, sentence 3".

        Args:
            windows: int64, numbers of the windows.
        """
        ...


class SentenceWindows:
    """Windows of annotated sentences in memory, as a single pool.

    Args:
        sentences: annotated sentences, grouped by document and in order.
        packer: packer that encodes the sentences and packs them into windows.
        context: context policy of the windows.
        labels: entity labels without "O", sorted; None takes the labels that occur in the sentences.
        summary: summary of the sentences; None computes it.

    Attributes:
        unreachable: number of entities of at most `entity_max_length` words that are not candidates of any window: they
            have too many tokens, or none at an edge.
        spans_of_several_labels: number of additional labels of spans with more than one; a model can learn only one
            class per span, the first by name.

    Raises:
        CoreError: `data.unknown_label`, `data.duplicate_sentence`, `data.no_windows`.
    """

    def __init__(
        self,
        sentences: Sequence[Sentence],
        packer: Packer,
        context: Context,
        labels: Sequence[str] | None = None,
        summary: DataSummary | None = None,
    ) -> None:
        check_distinct_sentences(sentences)
        self._sentences = sentences
        self.summary = summarise(sentences) if summary is None else summary
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
        """Return all windows, which form a single pool.

        Args:
            pool: number of the pool, 0.
        """
        return self._windows, self._gold

    def names(self, windows: np.ndarray) -> list[str]:
        """Describe the first sentence that each window owns.

        Args:
            windows: int64, numbers of the windows.
        """
        owned = np.flatnonzero(self._windows.word_tag)
        first = owned[np.searchsorted(owned, self._windows.word_offsets[windows])]
        return [_name(self._sentences[number]) for number in self._windows.word_sentence[first].tolist()]


def _gold(windows: Windows, entities: np.ndarray) -> Gold:
    """Place sorted entities (sentence, start, end, label; int64 [n, 4]) in the windows that own their first words."""

    def keys(sentence: np.ndarray, word: np.ndarray) -> np.ndarray:
        return (sentence.astype(np.int64) << np.int64(32)) + word

    sentence, start, end, label = entities.T
    placed = place_entities(
        windows, keys(windows.word_sentence, windows.word_index), keys(sentence, start), end - start
    )
    return Gold(placed.window, placed.word_start, placed.word_end, label[placed.entity].astype(np.int32))


def check_distinct_sentences(sentences: Sequence[Sentence]) -> None:
    """Reject data in which two sentences have the same ids, since their entities could not be distinguished.

    Args:
        sentences: the sentences.

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
    """Return a digest of sentences, their ids and entities.

    Args:
        sentences: the sentences.
    """
    digest = blake2b(digest_size=16)
    for sentence in sentences:
        entities = [(entity.start, entity.end, entity.label) for entity in sentence.entities]
        row = (sentence.document_id, sentence.sentence_id, sentence.words, entities)
        digest.update(json.dumps(row, separators=(",", ":")).encode())
    return digest.hexdigest()


def _name(sentence: Sentence) -> str:
    return f"document {sentence.document_id}, sentence {sentence.sentence_id}"

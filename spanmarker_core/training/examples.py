"""Annotated sentences -> windows with a label for every candidate span."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from spanmarker_core.data import Sentence
from spanmarker_core.data.windows import pack_annotated
from spanmarker_core.errors import CoreError
from spanmarker_core.gate import gate_targets, select_spans
from spanmarker_core.models.batch import Batch
from spanmarker_core.spans import candidate_spans, count_candidates
from spanmarker_core.windows import Context, Packer, Windows


class SpanExamples(Dataset[int]):
    """Windows of annotated sentences; `collate` turns window numbers into a batch and its labels.

    Candidate spans and their labels are made when a batch is asked for, so the data set costs as much
    as its tokens.

    Args:
        sentences: annotated; the sentences of a document next to each other, in order.
        packer: encodes and packs them.
        context: what a window shows around its sentence.
        labels: class names, "O" among them at `outside`.
        share: train on the spans at the first word of an entity and on this share of the others, drawn anew each time
            a window comes by; None trains on all.
        seed: of that draw.

    Raises:
        CoreError: `data.unknown_label` for an entity whose label isn't in `labels`.
    """

    def __init__(
        self,
        sentences: Iterable[Sentence],
        packer: Packer,
        context: Context,
        labels: Sequence[str],
        outside: int,
        share: float | None = None,
        seed: int = 0,
    ) -> None:
        self.packer = packer
        self.share = share
        self.random = np.random.default_rng(seed)
        self.outside = outside
        label_index = {label: index for index, label in enumerate(labels)}
        sentences = list(sentences)
        windows = pack_annotated(sentences, packer, context)
        gold = [
            (number, *entity)
            for number, sentence in enumerate(sentences)
            for entity in self._gold(sentence, label_index)
        ]
        # A window without candidates, such as one of words without tokens, has nothing to learn from.
        self.windows = windows.take(np.flatnonzero(count_candidates(windows, packer.entity_max_length)))
        table = np.array(sorted(gold), np.int64).reshape(-1, 4)
        same_span = (table[1:, :3] == table[:-1, :3]).all(axis=1)
        #: Spans with several labels: one class a span can be learned, the first by name.
        self.spans_of_several_labels = int(same_span.sum())
        table = table[np.append(True, ~same_span)[: len(table)]]
        self.gold_keys = self._key(table[:, 0], table[:, 1], table[:, 2])
        self.gold_labels = table[:, 3]
        sentence = table[:, 0] << np.int64(32)
        self.gold_heads, self.gold_ends = np.unique(sentence + table[:, 1]), np.unique(sentence + table[:, 2] - 1)

    def _gold(self, sentence: Sentence, label_index: dict[str, int]) -> Iterator[tuple[int, int, int]]:
        """Yield (start, end, label number) of the entities that can be candidates."""
        for entity in sentence.entities:
            if entity.label not in label_index:
                raise CoreError(
                    "data.unknown_label",
                    path=f"document {sentence.document_id}, sentence {sentence.sentence_id}",
                    label=entity.label,
                    labels=", ".join(label_index),
                )
            if entity.end - entity.start <= self.packer.entity_max_length:
                yield entity.start, entity.end, label_index[entity.label]

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, index: int) -> int:
        return index

    def collate(self, indices: Sequence[int]) -> dict[str, Batch | Tensor]:
        """Return a batch of these windows, ordered by length, and what it should be told.

        Returns:
            `{"batch": Batch, "labels": int64 [n_spans], "gate": float32 [n_words, 2], "asked": float32 [n_words, 2]}`:
            the class of each span; whether an entity starts and whether one ends at each word; 1 where the gate will
            be asked that, at the edges of candidate spans.
        """
        numbers = np.asarray(indices)
        lengths = np.diff(self.windows.token_offsets)[numbers]
        windows = self.windows.take(numbers[np.argsort(lengths, kind="stable")])
        spans = candidate_spans(windows, self.packer.entity_max_length)
        keys = self._key(
            windows.word_sentence[spans.first_word].astype(np.int64),
            windows.word_index[spans.first_word],
            windows.word_index[spans.last_word] + 1,
        )
        labels = np.full(len(spans), self.outside, np.int64)
        if len(self.gold_keys):
            place = np.minimum(np.searchsorted(self.gold_keys, keys), len(self.gold_keys) - 1)
            is_gold = self.gold_keys[place] == keys
            labels[is_gold] = self.gold_labels[place[is_gold]]
        is_gold = labels != self.outside
        asked = gate_targets(spans, np.ones(len(spans)), len(windows.word_index))
        if self.share is not None:
            chosen = select_spans(spans, is_gold, self.share, self.random)
            spans, labels = spans.take(chosen), labels[chosen]
        return {
            "batch": Batch.build(windows, spans),
            "labels": torch.from_numpy(labels),
            "gate": torch.from_numpy(self._edges(windows)),
            "asked": torch.from_numpy(asked),
        }

    def _edges(self, windows: Windows) -> np.ndarray:
        """Return where entities start and end, also those of another window's spans, float32 [n_words, 2]."""
        words = (windows.word_sentence.astype(np.int64) << np.int64(32)) + windows.word_index
        return np.stack([np.isin(words, self.gold_heads), np.isin(words, self.gold_ends)], axis=1).astype(np.float32)

    def _key(self, sentence: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Number spans so that equal spans, and only they, have equal numbers (sentences below 2^31 words)."""
        return (sentence << np.int64(32)) + start.astype(np.int64) * (self.packer.entity_max_length + 1) + end - start

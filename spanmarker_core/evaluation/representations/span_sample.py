"""Sampling of spans from annotated sentences, a limited number per class, and encoding of the sample by a model.

Each sampled entity also gets the cosines between itself and its neighbours, by overlapping ratio (Zhu et al. 2023,
DSpERT, section 5.1).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from spanmarker_core.arrays.counter_rng import mixed
from spanmarker_core.arrays.ragged import ragged_take
from spanmarker_core.data import Sentence
from spanmarker_core.data.batches import count_words, document_batches
from spanmarker_core.data.windows import pack_annotated
from spanmarker_core.errors import CoreError
from spanmarker_core.evaluation.representations.span_features import RATIOS, neighbours, pair_cosines, span_features
from spanmarker_core.inference.batching import BatchPlan, run_batches
from spanmarker_core.inference.scorer import BATCH_TOKENS
from spanmarker_core.inference.tagger import Tagger
from spanmarker_core.spans.candidates import Spans, candidate_spans
from spanmarker_core.windows.packer import Windows

#: Number of sentences that are packed and held in memory at once; more if a single document has more.
SENTENCES_A_CALL = 256
#: Class of the spans that are not entities, during sampling.
_NOTHING = 0


@dataclass(frozen=True, slots=True)
class SpanSample:
    """Sampled spans with their features.

    The sample depends only on the data and the limit, not on their order, the batches or the weights.

    Attributes:
        labels: entity labels, the most frequent first, then by name.
        seen: int64 [n_labels + 1], number of candidate spans of each class in the data; the last class is "no entity".
        label: int64 [n], class of each sampled span, rising.
        features: float32 [n, size].
        cosine_sums: float64 [n, 2, RATIOS], sums of cosines over an entity's neighbours, those that are not entities
            (0) and those that are (1), by group of overlapping ratio; 0 for spans of the class "no entity".
        pairs: int64 [n, 2, RATIOS], number of neighbours in each sum.
        sentences: number of sentences read.
        unreachable: number of entities that are not candidate spans of the model: too long, or without a token at an
            edge.
    """

    labels: list[str]
    seen: np.ndarray
    label: np.ndarray
    features: np.ndarray
    cosine_sums: np.ndarray
    pairs: np.ndarray
    sentences: int
    unreachable: int


class _Spans(NamedTuple):
    """Sampled spans: class, draw (uint64), and the columns of `SpanSample`."""

    label: np.ndarray
    draw: np.ndarray
    features: np.ndarray
    cosine_sums: np.ndarray
    pairs: np.ndarray

    def take(self, rows: np.ndarray) -> "_Spans":
        return _Spans(*(column[rows] for column in self))


class _Choice(NamedTuple):
    """Candidate spans to choose from, once per label: rows of `spans`, classes and draws."""

    row: np.ndarray
    label: np.ndarray
    draw: np.ndarray

    def take(self, rows: np.ndarray) -> "_Choice":
        return _Choice(*(column[rows] for column in self))


def sample_spans(model: Tagger, sentences: Iterable[Sentence], limit: int) -> SpanSample:
    """Sample up to `limit` spans of each gold label, and of "no entity", and encode them.

    A span's draw is a hash of its position and label; the lowest draws are sampled. Windows without a span that could
    enter the sample are never encoded, so the cost grows little with the size of the data.

    Args:
        model: a loaded model.
        sentences: annotated sentences, grouped by document and in order. They are streamed.
        limit: maximum number of spans per class, at least 1.

    Raises:
        CoreError: `representations.none` if the architecture does not classify spans; `data.no_entities` if no entity
            is a candidate span.
    """
    network: Any = model.network
    if not network.options.spans:
        raise CoreError("representations.none", architecture=model.config.architecture)
    sampler = _Sampler(model, limit)
    for batch in document_batches(sentences, SENTENCES_A_CALL):
        sampler.add(batch)
    return sampler.sample()


class _Sampler:
    def __init__(self, model: Tagger, limit: int) -> None:
        self._model, self._limit = model, limit
        self._numbers: dict[str, int] = {}  # class of each label, in order of first occurrence, from 1
        self._seen = np.zeros(1, np.int64)
        self._held: _Spans | None = None
        self._sentences = self._unreachable = 0
        self._told = 0  # words of the current sentences of which progress is told

    def add(self, sentences: Sequence[Sentence]) -> None:
        """Update the sample with whole documents.

        Args:
            sentences: annotated sentences of one or more documents.
        """
        windows = pack_annotated(sentences, self._model.packer, self._model.config.context)
        spans = candidate_spans(windows, self._model.config.entity_max_length)
        choice, is_entity = self._choice(sentences, windows, spans)
        counts = np.bincount(choice.label, minlength=len(self._numbers) + 1)
        counts[: len(self._seen)] += self._seen
        self._seen = counts
        choice = choice.take(np.flatnonzero(choice.draw < self._ceilings()[choice.label]))
        choice = choice.take(lowest(choice.label, choice.draw, self._limit))
        parts = [*([] if self._held is None else [self._held]), *self._encoded(windows, spans, choice, is_entity)]
        if parts:
            together = _Spans(*map(np.concatenate, zip(*parts, strict=True)))
            self._held = together.take(lowest(together.label, together.draw, self._limit))
        # The words of windows that need no encoding are told at the end.
        self._model.progress.advance(count_words(sentences) - self._told)
        self._told = 0

    def sample(self) -> SpanSample:
        """Return the sample.

        Raises:
            CoreError: `data.no_entities`.
        """
        seen, numbers, held = self._seen, self._numbers, self._held
        labels = sorted(
            (name for name in numbers if seen[numbers[name]]), key=lambda name: (-seen[numbers[name]], name)
        )
        if held is None or not labels:
            raise CoreError("data.no_entities", path="the data")
        order = np.array([*(numbers[label] for label in labels), _NOTHING])
        place = np.zeros(len(seen), np.int64)
        place[order] = np.arange(len(order))
        held = held._replace(label=place[held.label])
        held = held.take(np.lexsort((held.draw, held.label)))
        return SpanSample(
            labels=labels,
            seen=seen[order],
            label=held.label,
            features=held.features,
            cosine_sums=held.cosine_sums,
            pairs=held.pairs,
            sentences=self._sentences,
            unreachable=self._unreachable,
        )

    def _choice(self, sentences: Sequence[Sentence], windows: Windows, spans: Spans) -> tuple[_Choice, np.ndarray]:
        """Return all candidate spans with their draws, and a mask of the entities among them, bool [n_spans]."""
        gold = np.array(
            [
                (number, entity.start, entity.end, self._numbers.setdefault(entity.label, len(self._numbers) + 1))
                for number, sentence in enumerate(sentences)
                for entity in sentence.entities
            ],
            np.int64,
        ).reshape(-1, 4)
        row = _rows(windows, spans, gold)
        reached = row >= 0
        self._sentences += len(sentences)
        self._unreachable += int((~reached).sum())
        row, label = row[reached], gold[reached, 3]
        is_entity = np.zeros(len(spans), np.bool_)
        is_entity[row] = True
        others = np.flatnonzero(~is_entity)
        row, label = np.append(row, others), np.append(label, np.full(len(others), _NOTHING))
        documents = np.array([_hash(sentence.document_id) for sentence in sentences], np.uint64)
        ids = np.array([sentence.sentence_id for sentence in sentences])
        names = np.array([0, *map(_hash, self._numbers)], np.uint64)
        first, last = spans.first_word[row], spans.last_word[row]
        sentence, start = windows.word_sentence[first], windows.word_index[first]
        draw = mixed(documents[sentence], ids[sentence], start, windows.word_index[last], names[label])
        return _Choice(row, label, draw), is_entity

    def _ceilings(self) -> np.ndarray:
        """Return the exclusive upper bound of the draws of each class that can enter the sample, uint64."""
        ceilings = np.full(len(self._seen), np.iinfo(np.uint64).max)
        if self._held is not None:
            counts = np.bincount(self._held.label, minlength=len(ceilings))
            highest = np.zeros(len(ceilings), np.uint64)
            np.maximum.at(highest, self._held.label, self._held.draw)
            ceilings[counts == self._limit] = highest[counts == self._limit]
        return ceilings

    def _encoded(self, windows: Windows, spans: Spans, choice: _Choice, is_entity: np.ndarray) -> Iterator[_Spans]:
        """Encode the windows that hold a span of `choice`, in batches, smaller ones if memory is short."""
        if not len(choice.row):
            return
        model = self._model
        needed = np.unique(np.searchsorted(spans.offsets, choice.row, "right") - 1)
        batches = BatchPlan(windows.take(needed), model.config.entity_max_length, BATCH_TOKENS[model.device.type])

        def encode(indices: np.ndarray) -> _Spans:
            part = needed[indices]
            rows, _ = ragged_take(spans.offsets, part)
            place = np.full(len(spans), -1)
            place[rows] = np.arange(len(rows))
            inside = choice.take(np.flatnonzero(place[choice.row] >= 0))
            inside = inside._replace(row=place[inside.row])
            encoded = self._encode(windows.take(part), inside, is_entity[rows])
            n_words = int(windows.take(part).word_tag.sum())
            self._told += n_words
            model.progress.advance(n_words)
            return encoded

        yield from run_batches(batches, encode, model.device)

    def _encode(self, windows: Windows, choice: _Choice, is_entity: np.ndarray) -> _Spans:
        spans = candidate_spans(windows, self._model.config.entity_max_length)
        entities = np.flatnonzero(choice.label != _NOTHING)
        of, other, group = neighbours(windows, spans, choice.row[entities])
        rows = np.unique(np.concatenate([choice.row, other]))
        features = span_features(self._model, windows, spans, rows)
        own, its = np.searchsorted(rows, choice.row), np.searchsorted(rows, other)
        cosines = pair_cosines(features, own[entities[of]], its)
        known = ~np.isnan(cosines)
        where = entities[of[known]], is_entity[other[known]].astype(np.int64), group[known]
        sums, pairs = np.zeros((len(choice.row), 2, RATIOS)), np.zeros((len(choice.row), 2, RATIOS), np.int64)
        np.add.at(sums, where, cosines[known])
        np.add.at(pairs, where, 1)
        return _Spans(choice.label, choice.draw, features[own], sums, pairs)


def lowest(label: np.ndarray, draw: np.ndarray, limit: int) -> np.ndarray:
    """Return the rows of the `limit` lowest draws of each class, rising.

    Args:
        label: int64 [n], class of each row.
        draw: [n], draw of each row.
        limit: maximum number of rows per class.

    >>> lowest(np.array([1, 0, 1, 1, 0]), np.array([5, 9, 2, 7, 1]), 2).tolist()
    [0, 1, 2, 4]
    """
    order = np.lexsort((draw, label))
    classes = label[order]
    rank = np.arange(len(order)) - np.searchsorted(classes, classes)
    return np.sort(order[rank < limit])


def _rows(windows: Windows, spans: Spans, gold: np.ndarray) -> np.ndarray:
    """Return the index of the candidate span of each entity, int64 [n]; -1 if there is none.

    Args:
        windows: windows.
        spans: all candidate spans of the windows.
        gold: int64 [n, 4], sentence, first word, word after the last, and a column that is ignored.
    """
    owned = np.flatnonzero(windows.word_tag)
    if not len(owned):
        return np.full(len(gold), -1)
    keys = (windows.word_sentence[owned].astype(np.int64) << np.int64(32)) + windows.word_index[owned]
    by_key = np.argsort(keys)
    queries = (gold[:, 0] << np.int64(32)) + gold[:, 1]
    place = np.minimum(np.searchsorted(keys[by_key], queries), len(keys) - 1)
    first = owned[by_key[place]]
    # If a window has such a candidate, its words are contiguous words of one sentence.
    rows = spans.rows_of(first, first + gold[:, 2] - gold[:, 1] - 1)
    return np.where(keys[by_key[place]] == queries, rows, -1)


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())

"""Alignment of gold entities: from ranges of characters or words to spans of a window's words.

The sentences of a batch of documents are stored end to end (`Encoded`). A word's *position* is its index among all
their words.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.stages.pack import Encoded
from pipelines.stages.records import clean
from pipelines.stages.samples import Samples, document_edges, rows_of
from schemas import ANNOTATED_SAMPLES
from spanmarker_core.arrays.ragged import ragged_offsets
from spanmarker_core.data.records import Sentence, Span, range_problem
from spanmarker_core.spans.candidates import count_candidates, place_entities
from spanmarker_core.text.alignment import words_of_range
from spanmarker_core.windows.packer import Windows

#: Characters kept of an annotation's text.
_TEXT = 1000


@dataclass(frozen=True, slots=True)
class GoldDocument:
    """A document with its annotations as read.

    Attributes:
        document_id: its id.
        source: the file or folder that it was read from.
        source_row: where it, or its first sentence, is in the source.
        text: its text. For sentences given as words, one line per sentence, with a space between two words.
        entities: ranges of its characters; empty if there are `sentences`.
        sentences: sentences given as words, with ranges of words; None for a text that is still to be split.
        sentence_rows: where each sentence is in the source.
    """

    document_id: str
    source: str
    source_row: int
    text: str
    entities: list[Span]
    sentences: list[Sentence] | None = None
    sentence_rows: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class GoldEntity:
    """An entity that may be a candidate span.

    Attributes:
        first: position of its first word.
        last: position of its last word, inclusive.
        label: its label.
        record: its columns of GOLD_PROBLEMS, in case it turns out not to be a candidate span.
    """

    first: int
    last: int
    label: str
    record: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Aligned:
    """The result of an alignment.

    Attributes:
        sentences: the sentences to learn, with all entities that match words, reachable or not.
        gold: entities that may be candidate spans, sorted by position and label.
        problems: rows of GOLD_PROBLEMS for the others.
    """

    sentences: list[Sentence]
    gold: list[GoldEntity]
    problems: list[dict[str, Any]]


class _Misfit(Exception):
    """The reason why an annotation does not match the words of a sentence: a code of GOLD_PROBLEMS and a message."""


def align(documents: Sequence[GoldDocument], encoded: Encoded, entity_max_length: int) -> Aligned:
    """Align annotations with words.

    An annotation of characters has to begin at the first character of a word and end at the last character of a word.

    Args:
        documents: the documents, in order.
        encoded: their sentences.
        entity_max_length: words of the longest candidate span.
    """
    words = _Words(encoded)
    parts = [words.align(document, entity_max_length) for document in documents]
    gold = sorted((gold for part in parts for gold in part.gold), key=lambda gold: (gold.first, gold.last, gold.label))
    return Aligned(
        [sentence for part in parts for sentence in part.sentences],
        gold,
        [row for part in parts for row in part.problems],
    )


class _Words:
    """The words of sentences, by position."""

    def __init__(self, encoded: Encoded) -> None:
        rows, flat = encoded.rows, encoded.sentences.flat
        self.offsets = encoded.sentences.word_offsets
        shift = np.repeat(rows["char_start"].to_numpy(), np.diff(self.offsets))
        self.starts, self.ends = flat.word_char_start + shift, flat.word_char_end + shift
        self.has_token = flat.word_token_end > flat.word_token_start
        self.sentence_ids = rows["sentence_id"].to_pylist()
        self.char_starts, self.char_ends = rows["char_start"].to_numpy(), rows["char_end"].to_numpy()
        self.next_row = 0
        self.document_ids = rows["document_id"].to_pylist()

    def align(self, document: GoldDocument, entity_max_length: int) -> Aligned:
        """Align the annotations of the next document."""
        row_start = row_end = self.next_row
        while row_end < len(self.document_ids) and self.document_ids[row_end] == document.document_id:
            row_end += 1
        self.next_row = row_end
        aligned = Aligned(self._sentences(document, row_start, row_end), [], [])
        seen: set[tuple[int, int, str]] = set()
        for record, row, span in _annotations(document, row_start):
            try:
                if row is None:
                    first, last = self._of_text(document.text, span, row_start, row_end, record)
                else:
                    first, last = self._of_words(span, row, record)
                key = (first, last, span.label)
                if key in seen:
                    raise _Misfit("duplicate", "it occurs twice")
                seen.add(key)
                row = self._row(first)
                if (end_row := self._row(last)) != row:
                    between = f"sentence {self.sentence_ids[row]} and ends in sentence {self.sentence_ids[end_row]}"
                    raise _Misfit("crosses_sentences", f"it begins in {between}")
                start = first - int(self.offsets[row])
                aligned.sentences[row - row_start].entities.append(Span(start, start + last + 1 - first, span.label))
                if (length := last + 1 - first) > entity_max_length:
                    raise _Misfit("too_long", f"it has {length} words, but entity_max_length is {entity_max_length}")
                if not (self.has_token[first] and self.has_token[last]):
                    raise _Misfit("no_tokens", "its first or last word has no token for a marker to point at")
                aligned.gold.append(GoldEntity(first, last, span.label, record))
            except _Misfit as misfit:
                aligned.problems.append(problem(record, *misfit.args))
        return aligned

    def _of_words(self, span: Span, row: int, record: dict[str, Any]) -> tuple[int, int]:
        offset = int(self.offsets[row])
        record["sentence_id"] = self.sentence_ids[row]
        if misfit := range_problem(span, int(self.offsets[row + 1]) - offset, "word"):
            raise _Misfit("out_of_range", misfit)
        return offset + span.start, offset + span.end - 1

    def _of_text(self, text: str, span: Span, row_start: int, row_end: int, record: dict[str, Any]) -> tuple[int, int]:
        if misfit := range_problem(span, len(text), "character"):
            raise _Misfit("out_of_range", misfit)
        row = row_start + int(np.searchsorted(self.char_starts[row_start:row_end], span.start, "right")) - 1
        if row >= row_start and span.start < self.char_ends[row]:
            record["sentence_id"] = self.sentence_ids[row]
        low, high = int(self.offsets[row_start]), int(self.offsets[row_end])
        found = words_of_range(self.starts[low:high], self.ends[low:high], span.start, span.end)
        first, last = low + found.first, low + found.last
        faults = []
        if not found.begins:
            faults.append(f"begins {self._where(text, span.start, first, high)}")
        if not found.ends:
            faults.append(f"ends {self._where(text, span.end, last, high)}")
        if faults:
            raise _Misfit("misaligned", f"it {' and '.join(faults)}: move its start and end to word boundaries")
        return first, last

    def _where(self, text: str, at: int, place: int, high: int) -> str:
        """Describe the text at a character that is not the edge of a word."""
        if 0 <= place < high and self.starts[place] < at < self.ends[place]:
            start, end = int(self.starts[place]), int(self.ends[place])
            return f"inside the word {text[start:end][:60]!r} ({start} to {end})"
        return "outside any word"

    def _row(self, place: int) -> int:
        return int(np.searchsorted(self.offsets, place, "right")) - 1

    def _sentences(self, document: GoldDocument, row_start: int, row_end: int) -> list[Sentence]:
        """Return the sentences of rows, without entities."""
        if document.sentences is not None:
            return [Sentence(s.document_id, s.sentence_id, s.words, []) for s in document.sentences]
        made = []
        for row in range(row_start, row_end):
            here = slice(int(self.offsets[row]), int(self.offsets[row + 1]))
            bounds = zip(self.starts[here].tolist(), self.ends[here].tolist(), strict=True)
            words = [document.text[start:end] for start, end in bounds]
            made.append(Sentence(document.document_id, self.sentence_ids[row], words, []))
        return made


def _annotations(document: GoldDocument, row_start: int) -> list[tuple[dict[str, Any], int | None, Span]]:
    """Return (record, row of the sentence or None, range) per annotation; the record is that of `GoldEntity`."""

    def record(span: Span, source_row: int, unit: str, text: str) -> dict[str, Any]:
        return {
            "document_id": document.document_id,
            "sentence_id": None,
            "source": clean(document.source),
            "source_row": source_row,
            "start": span.start,
            "end": span.end,
            "unit": unit,
            "label": span.label,
            "text": text if len(text) <= _TEXT else f"{text[: _TEXT - 1]}…",
        }

    if document.sentences is None:
        text = document.text
        return [
            (record(span, document.source_row, "characters", text[_in(span)]), None, span) for span in document.entities
        ]
    return [
        (record(span, source_row, "words", " ".join(sentence.words[_in(span)])), row_start + number, span)
        for number, (sentence, source_row) in enumerate(zip(document.sentences, document.sentence_rows, strict=True))
        for span in sentence.entities
    ]


def _in(span: Span) -> slice:
    """Return the part of a range that can be shown: indices before the start of the text are cut off."""
    return slice(max(0, span.start), max(0, span.end))


def problem(record: dict[str, Any], code: str, message: str) -> dict[str, Any]:
    """Return a row of GOLD_PROBLEMS.

    Args:
        record: columns of the annotation.
        code: a code of GOLD_PROBLEMS.
        message: a message for the user.
    """
    return {**record, "code": code, "message": clean(message)}


def with_gold(
    samples: Samples, encoded: Encoded, gold: Sequence[GoldEntity], entity_max_length: int
) -> tuple[pa.RecordBatch, list[GoldEntity]]:
    """Add the gold entities to windows.

    Args:
        samples: some of the windows of `encoded`.
        encoded: all sentences.
        gold: all entities that may be in these windows, sorted by position.
        entity_max_length: words of the longest candidate span.

    Returns:
        ANNOTATED_SAMPLES rows, and the gold entities that begin in these windows and extend beyond them.
    """
    windows, schema = samples.windows, ANNOTATED_SAMPLES.schema
    first, last = (np.array([getattr(span, name) for span in gold], np.int64) for name in ("first", "last"))
    placed = place_entities(windows, _positions(windows, encoded), first, last + 1 - first)
    offsets = pa.array(ragged_offsets(np.bincount(placed.window, minlength=len(windows))))
    lists = {
        "gold_word_start": pa.array(placed.word_start),
        "gold_word_end": pa.array(placed.word_end),
        "gold_label": pa.array([gold[number].label for number in placed.entity.tolist()], pa.large_string()),
    }
    rows = pa.RecordBatch.from_arrays(
        [
            *rows_of(samples).columns,
            pa.array(np.diff(windows.token_offsets).astype(np.int32)),
            pa.array(count_candidates(windows, entity_max_length)),
            *(
                pa.LargeListArray.from_arrays(offsets, values, type=schema.field(name).type)
                for name, values in lists.items()
            ),
        ],
        schema=schema,
    )
    return rows, [gold[number] for number in placed.beyond.tolist()]


def _positions(windows: Windows, encoded: Encoded) -> np.ndarray:
    """Return the position of each word of some windows, int64 [n_words]."""
    edges = document_edges(encoded.rows["document_id"])
    sentences = encoded.rows["sentence_id"].to_numpy()

    def keys(documents: np.ndarray, sentences: np.ndarray) -> np.ndarray:
        return (documents.astype(np.int64) << np.int64(32)) + sentences

    wanted = keys(np.repeat(windows.document, np.diff(windows.word_offsets)), windows.word_sentence)
    row = np.searchsorted(keys(np.repeat(np.arange(len(edges) - 1), np.diff(edges)), sentences), wanted)
    return encoded.sentences.word_offsets[row] + windows.word_index

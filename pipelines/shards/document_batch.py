"""A batch of documents that were read together, and its results so far."""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.stages.records import RAW_BYTES, Reject
from pipelines.stages.samples import Samples
from pipelines.stages.tag import numbered
from schemas import ENTITIES


@dataclass(slots=True)
class DocumentBatch:
    """A batch of documents being processed. All arrays are indexed by the documents' positions in `documents`.

    Attributes:
        documents: INPUTS rows; ids are unique. If the job keeps columns, with the struct `kept`.
        rejects: invalid records, and documents that failed before they had windows.
        n_sentences: int64, sentences of each document, counted so far.
        n_windows: int64, windows of each document, counted so far.
        n_words: int64, words of each document, counted so far.
        n_long_words: int64, words of each document that are too long for a window, counted so far.
        annotations: ENTITIES rows; the rows of one document may be spread over several batches.
        rejected: rejects of `documents`, by position. Their annotations are ignored.
        processed: bytes of text in the packed batches so far.
        reported: words and bytes of text of which progress was told.
        reported_entities: entities of which progress was told.
    """

    documents: pa.RecordBatch
    rejects: list[Reject] = field(default_factory=list, kw_only=True)
    n_sentences: np.ndarray = field(init=False)
    n_windows: np.ndarray = field(init=False)
    n_words: np.ndarray = field(init=False)
    n_long_words: np.ndarray = field(init=False)
    annotations: list[pa.RecordBatch] = field(default_factory=list, kw_only=True)
    rejected: dict[int, Reject] = field(default_factory=dict, kw_only=True)
    processed: int = field(default=0, kw_only=True)
    reported: tuple[int, int] = field(default=(0, 0), kw_only=True)
    reported_entities: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        self.n_sentences, self.n_windows, self.n_words, self.n_long_words = (
            np.zeros(len(self.documents), np.int64) for _ in range(4)
        )

    def places(self, ids: pa.Array) -> np.ndarray:
        """Return the positions of documents.

        Args:
            ids: their ids.
        """
        return pc.index_in(ids, value_set=self.documents["document_id"]).to_numpy(zero_copy_only=False)

    def alive(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of documents that are not rejected.

        Args:
            rows: rows with `document_id`.
        """
        return rows.filter(pa.array(self._are_alive(rows["document_id"]))) if self.rejected else rows

    def alive_samples(self, samples: Samples) -> Samples:
        """Return the windows of documents that are not rejected.

        Args:
            samples: windows of these documents.
        """
        return samples.take(np.flatnonzero(self._are_alive(samples.document_ids))) if self.rejected else samples

    def _are_alive(self, ids: pa.Array) -> np.ndarray:
        return ~np.isin(self.places(ids), list(self.rejected))

    def reject(self, place: int, stage: str, code: str, message: str) -> None:
        """Reject a document, unless it is already rejected.

        Args:
            place: position of the document.
            stage: the stage that failed.
            code: stable code of the reason.
            message: the reason, for the user.
        """
        self.rejected.setdefault(place, reject_of(self.documents, place, stage, code, message))

    def count(self, samples: Samples) -> None:
        """Add the windows and words of samples to the counts.

        Args:
            samples: windows of these documents.
        """
        places, size, windows = self.places(samples.document_ids), len(self.documents), samples.windows
        word_places, own = np.repeat(places, np.diff(windows.word_offsets)), windows.word_tag
        self.n_windows += np.bincount(places, minlength=size)
        self.n_words += np.bincount(word_places[own], minlength=size)
        self.n_long_words += np.bincount(word_places[own & windows.word_long], minlength=size)

    def new_progress(self, step: "PackedBatch[DocumentBatch]") -> tuple[int, int]:
        """Return the words counted and the bytes of text processed, less those of which progress was told.

        Call it after each packed batch. Words of documents that have been rejected in the meantime are subtracted.

        Args:
            step: the packed batch.
        """
        alive = np.ones(len(self.documents), bool)
        alive[list(self.rejected)] = False
        words = int(self.n_words[alive].sum())
        self.processed += self.text_bytes(step)
        before, self.reported = self.reported, (words, self.processed)
        return words - before[0], self.processed - before[1]

    def text_bytes(self, step: "PackedBatch[DocumentBatch]") -> int:
        """Return the bytes of text of a packed batch that is not processed yet.

        They are approximated by the characters of its windows; the last batch has the remainder.

        Args:
            step: the packed batch.
        """
        left = self.documents["text"].nbytes - self.processed
        return left if step.last else min(sum(map(len, step.samples.texts)), left)

    def told(self, words: int, n_bytes: int, entities: int) -> None:
        """Record that progress was told within a packed batch.

        Args:
            words: number of words.
            n_bytes: bytes of text.
            entities: number of entities.
        """
        self.reported = self.reported[0] + words, self.reported[1] + n_bytes
        self.reported_entities += entities

    def checked_annotations(self) -> pa.RecordBatch:
        """Return the ENTITIES rows of documents that are not rejected, numbered within each document.

        The text of every row is compared with the document's characters; a document with a wrong row is rejected.
        """
        found = self.alive(pa.concat_batches([pa.RecordBatch.from_pylist([], ENTITIES), *self.annotations]))
        places = self.places(found["document_id"])
        texts = self.documents["text"].to_pylist()
        starts, ends = found["char_start"].to_pylist(), found["char_end"].to_pylist()
        slices = [texts[place][start:end] for place, start, end in zip(places, starts, ends, strict=True)]
        right = pc.equal(pa.array(slices, pa.large_string()), found["text"]).to_numpy(zero_copy_only=False)
        right &= np.asarray(starts, np.int64) < np.asarray(ends, np.int64)
        for place in np.unique(places[~right]).tolist():
            self.reject(place, "tag", "bad_offsets", "a row's text is not the document's text[char_start:char_end]")
        return numbered(self.alive(found))


Documents = TypeVar("Documents", bound=DocumentBatch, covariant=True)


@dataclass(frozen=True, slots=True)
class PackedBatch(Generic[Documents]):
    """A chunk of windows being processed, and the batch of documents that it belongs to.

    Attributes:
        group: the documents.
        samples: the windows.
        failures: error messages of documents that lack windows here, by document id.
        last: whether this is the last chunk of the documents.
    """

    group: Documents
    samples: Samples
    failures: dict[str, str]
    last: bool

    def arrive(self) -> Samples:
        """Reject the documents that could not be packed; return the windows of documents that are not rejected."""
        for document_id, message in self.failures.items():
            place = pc.index(self.group.documents["document_id"], document_id).as_py()
            self.group.reject(place, "pack", "pack_failed", message)
        return self.group.alive_samples(self.samples)


def reject_of(documents: pa.RecordBatch, place: int, stage: str, code: str, message: str) -> Reject:
    """Return the reject of a document.

    Args:
        documents: INPUTS rows.
        place: position of the document.
        stage: the stage that failed.
        code: stable code of the reason.
        message: the reason, for the user.
    """
    row = {name: documents[name][place].as_py() for name in ("document_id", "source", "source_row", "text")}
    text = row["text"]
    # A character has at least one byte, so these characters contain all bytes that are kept.
    raw = text[:RAW_BYTES].encode()[:RAW_BYTES]
    return Reject(row["document_id"], row["source"], row["source_row"], stage, code, message, raw, len(text))

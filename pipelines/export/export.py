"""Driver of `spanmarker export`: streams the documents of a finished output into a format."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from pipelines.errors import PipelineError
from pipelines.export.destination import Destination
from pipelines.export.documents import TaggedDocument, check_source, tagged_documents
from pipelines.export.output import TaggedOutput, open_output
from pipelines.export.words import RunWords
from pipelines.output.manifest import committed_entry
from pipelines.storage import join
from pipelines.task import Columns
from schemas.shards import Shard
from spanmarker_core.formats.document import AnnotatedDocument, AnnotatedEntity, entity_order
from spanmarker_core.formats.flatten import Kept
from spanmarker_core.formats.options import WriteOptions, optional_module
from spanmarker_core.formats.registry import Format, format_called, write_documents

#: Formats of texts that hold sentences and words as well.
_WITH_WORDS = ("spacy", "cas")
#: Module that a format requires, by its extra.
_MODULES = {"spacy": "spacy", "cas": "cassis"}
_MISSING = {"export.source_gone": "gone", "export.source_changed": "changed"}


@dataclass(frozen=True, slots=True)
class Selection:
    """The part of an output to export.

    Attributes:
        labels: labels of the entities, and lists of labels with commas between them; none means all.
        min_score: lowest score of an entity, 0 to 1.
        documents: ids of the documents; None means all.
        limit: greatest number of documents; None means all.
    """

    labels: tuple[str, ...] = ()
    min_score: float = 0.0
    documents: frozenset[str] | None = None
    limit: int | None = None


@dataclass(slots=True)
class Exported:
    """Counters of an export.

    Attributes:
        kept: documents and entities that were written, and those that the format can't hold.
        rejected: rejected documents, which have no entities and are not written.
        missing: documents of shards whose sources are `gone`, have `changed` or are `unplanned`, which were left out.
    """

    kept: Kept = field(default_factory=Kept)
    rejected: int = 0
    missing: Counter[str] = field(default_factory=Counter)

    def record(self) -> dict[str, Any]:
        """Return the counters as JSON values."""
        kept = self.kept
        return {
            "documents": kept.documents,
            "entities": kept.entities,
            "labels": dict(kept.labels.most_common()),
            "left_out": dict(kept.left_out),
            "wordless_documents": kept.wordless,
            "rejected_documents": self.rejected,
            "missing_documents": dict(self.missing),
        }


def export(
    output: str,
    to: str,
    destination: str,
    selection: Selection,
    write: WriteOptions,
    *,
    one_file: bool = False,
    skip_missing: bool = False,
    force: bool = False,
    model: str | None = None,
) -> Exported:
    """Write the documents of a finished output in a format, shard by shard in the order of the plan.

    Args:
        output: output folder of `spanmarker tag`, a path or URL.
        to: name of the format.
        destination: file or folder to write, a path or URL; see `pipelines.export.destination`.
        selection: the documents and entities to export.
        write: options of the writer.
        one_file: whether to write one part instead of one per shard.
        skip_missing: whether to leave out and count the documents whose source no longer exists or has changed.
        force: whether a previous export is replaced.
        model: folder of the model bundle, for formats of words if its words are those of its tokenizer.

    Returns:
        What was written and what was left out.

    Raises:
        PipelineError: `export.*`, `output.*`, `url.*`, `storage.failed`.
        CoreError: `call.unknown_option`, `format.*`, `bundle.*`.
    """
    form = format_called(to, written=True)
    if form.extra is not None:
        optional_module(_MODULES[form.extra], form.extra)
    return _Export(open_output(output), form, destination, selection, write, one_file, skip_missing, model).run(force)


class _Export:
    def __init__(
        self,
        output: TaggedOutput,
        form: Format,
        destination: str,
        selection: Selection,
        write: WriteOptions,
        one_file: bool,
        skip_missing: bool,
        model: str | None,
    ) -> None:
        self._output, self._form, self._write, self._selection = output, form, write, selection
        self._one_file, self._skip_missing = one_file, skip_missing
        self._destination = Destination(destination, form, one_file)
        needs_words = form.needs_words or form.name in _WITH_WORDS
        self._words = RunWords(output.identity, model) if needs_words else None
        self._labels = output.labels_in(selection.labels)
        self._exported = Exported()
        self._left = selection.limit
        self._chosen: Counter[str] | None = None  # number of the chosen documents by shard; None if all are chosen

    def run(self, force: bool) -> Exported:
        output, selection = self._output, self._selection
        self._destination.check(output.folder, self._sources(), force)
        if output.unplanned and selection.documents is None:
            if not self._skip_missing:
                raise PipelineError("export.unplanned", path=output.folder, shards=output.unplanned)
            self._exported.missing["unplanned"] = output.unplanned_documents
        shards = self._shards()  # finds unknown documents before anything is removed
        with self._destination.replaced(self._record()):
            if self._one_file:
                self._part(None, chain.from_iterable(map(self._documents, shards)))
            else:
                for shard in shards:
                    documents = self._documents(shard)
                    first = next(documents, None)
                    if first is not None:
                        self._part(shard.name, chain([first], documents))
            self._destination.finish({**self._record(), **self._exported.record()})
        return self._exported

    def _record(self) -> dict[str, Any]:
        chosen = self._selection
        filters = {
            "labels": sorted(self._labels),
            "min_score": chosen.min_score,
            "documents": None if chosen.documents is None else len(chosen.documents),
            "limit": chosen.limit,
        }
        return {"output": self._output.folder, "job": self._output.identity, "filters": filters}

    def _sources(self) -> Iterator[str]:
        for shard in self._output.shards():
            yield shard.source
            yield from (join(shard.source, name) for name in shard.files)

    def _shards(self) -> Iterator[Shard]:
        """Return the shards to export."""
        if self._selection.documents is None:
            return self._output.shards()
        self._chosen = chosen = self._output.shards_with(self._selection.documents)
        return (shard for shard in self._output.shards() if shard.name in chosen)

    def _part(self, shard: str | None, documents: Iterator[AnnotatedDocument]) -> None:
        def write(target: Any) -> None:
            self._exported.kept.add(write_documents(documents, self._form.name, target, self._write))

        self._destination.part(shard, write)

    def _documents(self, shard: Shard) -> Iterator[AnnotatedDocument]:
        """Yield the selected documents of a shard with the selected entities."""
        if self._left == 0:
            return
        schema = self._output.schema(shard.name)
        columns = self._output.columns(schema)
        if not self._has_source(shard, columns):
            return
        words_of = None if self._words is None else self._words.of_shard(schema)
        chosen = self._selection.documents
        for document in tagged_documents(self._output, shard, columns):
            if chosen is not None and document.row["document_id"] not in chosen:
                continue
            if document.text is None:
                self._exported.rejected += 1
                continue
            sentences = None
            if words_of is not None and self._words is not None:
                sentences = self._words.split(document.row, document.text, document.entities, words_of)
            yield AnnotatedDocument(document.row["document_id"], document.text, sentences, self._entities(document))
            if self._left is not None:
                self._left -= 1
                if not self._left:
                    return

    def _entities(self, document: TaggedDocument) -> list[AnnotatedEntity]:
        # Scores are stored as float32: a stored 0.9 is less than 0.9.
        labels, min_score = self._labels, np.float32(self._selection.min_score)
        found = [
            AnnotatedEntity(row["char_start"], row["char_end"], row["label"], row["score"])
            for row in document.entities
            if (not labels or row["label"] in labels) and np.float32(row["score"]) >= min_score
        ]
        return sorted(found, key=entity_order)

    def _has_source(self, shard: Shard, columns: Columns) -> bool:
        """Return whether the source of a shard is the one that was tagged; if not, count the documents left out."""
        try:
            check_source(shard, columns)
        except PipelineError as error:
            if not self._skip_missing or error.code not in _MISSING:
                raise
            self._exported.missing[_MISSING[error.code]] += self._count(shard.name)
            return False
        return True

    def _count(self, shard: str) -> int:
        """Return the number of documents of a shard that would be exported if its source were there."""
        if self._chosen is not None:
            return self._chosen[shard]
        entry = committed_entry(self._output.folder, shard)
        return entry.counts["documents"] if entry else 0

"""Builders of the tables of tagging."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.shards.document_batch import DocumentBatch
from pipelines.stages.kept_columns import kept_columns, kept_fields
from pipelines.stages.records import Reject, clean
from schemas import ANNOTATIONS, DOCUMENTS, REJECTS


def documents_table(group: DocumentBatch, annotations: pa.RecordBatch, done: str = "tagged") -> pa.RecordBatch:
    """Return the DOCUMENTS rows of a batch of documents, in the order of the source, with the columns that it keeps.

    Kept columns of records that could not be read are null.

    Args:
        group: the documents.
        annotations: all annotations of the documents.
        done: status of an accepted document that has sentences.
    """
    documents, count = group.documents, len(group.documents)
    columns = {
        "n_sentences": group.n_sentences,
        "n_words": group.n_words,
        "n_long_words": group.n_long_words,
        "n_windows": group.n_windows,
        "n_entities": np.bincount(group.places(annotations["document_id"]), minlength=count),
    }
    alive = np.ones(count, bool)
    alive[list(group.rejected)] = False
    status = np.where(alive, np.where(group.n_sentences > 0, done, "empty"), "rejected")
    kept = kept_columns(documents)
    schema = DOCUMENTS.extended(kept_fields(documents)).schema
    rows = pa.RecordBatch.from_arrays(
        [
            documents["document_id"],
            documents["source"],
            documents["source_row"],
            pa.array(status, pa.string()),
            pc.utf8_length(documents["text"]).cast(pa.int64()),
            *(pa.array(np.where(alive, values, 0), pa.int32()) for values in columns.values()),
            documents["language"],
            documents["language_from"],
            *kept.values(),
        ],
        schema=schema,
    )
    if not group.rejects:
        return rows
    failed = [
        {
            "document_id": reject.document_id,
            "source": clean(reject.source),
            "source_row": None if reject.source_row is None else reject.source_row + number,
            "status": "rejected",
            "n_characters": reject.n_characters,
            **dict.fromkeys(columns, 0),
        }
        for reject in group.rejects
        for number in range(reject.n_documents)
    ]
    unread = pa.RecordBatch.from_pylist(failed, schema=DOCUMENTS.schema)
    nulls = (pa.nulls(len(failed), column.type) for column in kept.values())
    unread = pa.RecordBatch.from_arrays([*unread.columns, *nulls], schema=schema)
    rows = pa.concat_batches([rows, unread])
    return rows.take(pc.sort_indices(rows, [("source", "ascending"), ("source_row", "ascending")]))


def annotations_table(group: DocumentBatch, entities: pa.RecordBatch, keep: bool) -> pa.RecordBatch:
    """Return the ANNOTATIONS rows of a batch of documents.

    Args:
        group: the documents.
        entities: ENTITIES rows of these documents.
        keep: whether each row has the kept columns of its document.
    """
    documents, places = group.documents, pa.array(group.places(entities["document_id"]))
    kept = kept_columns(documents) if keep else {}
    of_documents = [documents["source"], documents["source_row"], *kept.values()]
    schema = ANNOTATIONS.extended(kept_fields(documents) if keep else []).schema
    columns = [*entities.columns, *(column.take(places) for column in of_documents)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def rejects_table(rejects: list[Reject]) -> pa.RecordBatch:
    """Return REJECTS rows.

    Args:
        rejects: the rejects, in order.
    """
    rows = [
        {
            "document_id": reject.document_id,
            "source": clean(reject.source),
            "source_row": reject.source_row,
            "stage": reject.stage,
            "code": reject.code,
            "message": clean(reject.message),
            "n_documents": reject.n_documents,
            "raw": reject.raw,
        }
        for reject in rejects
    ]
    return pa.RecordBatch.from_pylist(rows, schema=REJECTS.schema)

"""Example sentences for the report of a run, drawn from the rows that it wrote.

Digests of names and ids decide which sentences are drawn: a fair sample, neither the best nor the worst, and the same
for the same rows. Texts are read from the inputs of the job only, and only for a short time; without them there are no
examples.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.output.digest_set import digests_of
from pipelines.output.layout import table_path
from pipelines.pages.text import between_words
from pipelines.report.tables import table_batches
from pipelines.stages.languages import AUTO, DEFAULT
from pipelines.texts.named import root_of
from pipelines.texts.sentence import sentence_around
from pipelines.texts.sources import Sources, agrees
from schemas import ANNOTATIONS, DOCUMENTS
from spanmarker_core.errors import CodedError

#: Number of sentences, one per document, and maximum number of shards that they are drawn from.
SENTENCES, SHARDS = 8, 4
#: Maximum numbers of annotation rows and of documents of a shard that are looked at.
_ROWS, _DOCUMENTS = 20_000, 200_000
#: Maximum seconds for reading rows and sources.
SECONDS = 3.0
#: Maximum number of code points of a sentence, and of those before its first entity.
_CHARACTERS, _BEFORE = 500, 160
#: Maximum number of entities marked in a sentence.
_MARKS = 20

RULE = (
    "One sentence with an entity from each of up to 8 documents, chosen by a digest of their ids: a random sample, "
    "neither the best nor the worst."
)
_COLUMNS = ["document_id", "sentence_id", "label", "score", "text", "char_start", "char_end"]


def sample_sentences(
    output: str, shards: Iterable[str], inputs: Iterable[str], identity: Mapping[str, str]
) -> dict[str, Any]:
    """Return example sentences as plain values: `rule`, `sentences`, and `missing`, the reason if there are none.

    Args:
        output: the output folder.
        shards: names of finished shards with annotations.
        inputs: the patterns of the job's inputs; only files that they can match are read.
        identity: the job identity.

    Raises:
        PipelineError: `output.not_readable`, `output.damaged`.
    """
    deadline = time.monotonic() + SECONDS
    names = sorted(shards, key=lambda name: int(digests_of([name])[0]))[:SHARDS]
    drawn: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    for place, shard in enumerate(names):
        wanted = -(-(SENTENCES - len(drawn)) // (len(names) - place))
        if time.monotonic() < deadline:
            drawn += _of_shard(output, shard, wanted, deadline)
    if not drawn:
        return _values([], "no entities were found")
    try:
        sources = Sources(output, identity["id_column"], identity["text_column"], map(root_of, inputs))
    except CodedError as error:
        return _values([], str(error))
    texts = sources.texts([document for document, _ in drawn], max(deadline - time.monotonic(), 0.0))
    sentences, missing = [], ""
    for (document, rows), text in zip(drawn, texts, strict=True):
        if text.text is None:
            missing = missing or text.problem or "the job names no inputs with texts"
        elif not agrees(text.text, [(row["char_start"], row["char_end"], row["text"]) for row in rows]):
            missing = missing or f"its source has changed since it was tagged: {document['source']}"
        else:
            sentences.append(_sentence(text.text, document, rows, identity["language"]))
    return _values(sentences, "" if sentences else missing)


def _values(sentences: list[dict[str, Any]], missing: str) -> dict[str, Any]:
    return {"rule": RULE, "sentences": sentences, "missing": missing}


def _of_shard(
    output: str, shard: str, wanted: int, deadline: float
) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Yield the rows of up to `wanted` documents of a shard, each with the entities of one of its sentences."""
    rows = _head(table_path(output, ANNOTATIONS.name, shard), _COLUMNS, _ROWS, deadline)
    if not len(rows):
        return
    if len(rows) > _ROWS:  # The last document may be incomplete.
        whole = rows.filter(pc.not_equal(rows["document_id"], rows["document_id"][-1]))
        rows = whole if len(whole) else rows
    chosen = _smallest(pc.unique(rows["document_id"]).to_pylist(), wanted)
    columns = ["document_id", "source", "source_row", "status", "n_characters"]
    documents = _head(table_path(output, DOCUMENTS.name, shard), columns, _DOCUMENTS, deadline)
    found = documents.filter(
        pc.and_(
            pc.is_in(documents["document_id"], pa.array(chosen, pa.large_string())),
            pc.equal(documents["status"], "tagged"),
        )
    )
    by_id = {document["document_id"]: {**document, "shard": shard} for document in found.to_pylist()}
    for document_id in chosen:
        if document_id in by_id:
            entities = rows.filter(pc.equal(rows["document_id"], document_id)).to_pylist()
            sentences = {f"{document_id} {row['sentence_id']}": row["sentence_id"] for row in entities}
            sentence = sentences[_smallest(list(sentences), 1)[0]]
            yield by_id[document_id], [row for row in entities if row["sentence_id"] == sentence][:_MARKS]


def _head(path: str, columns: list[str], rows: int, deadline: float) -> pa.Table:
    """Return the first rows of a table, up to one batch more than `rows`."""
    batches: list[pa.RecordBatch] = []
    for batch in table_batches(path, columns):
        batches.append(batch)
        if sum(map(len, batches)) > rows or time.monotonic() > deadline:
            break
    return pa.Table.from_batches(batches) if batches else pa.table({name: [] for name in columns})


def _smallest(names: list[str], count: int) -> list[str]:
    """Return the names with the smallest digests, in the order of the digests."""
    return [names[place] for place in np.argsort(digests_of(names), kind="stable")[:count]]


def _sentence(text: str, document: Mapping[str, Any], rows: list[dict[str, Any]], language: str) -> dict[str, Any]:
    rows = sorted(rows, key=lambda row: (row["char_start"], -row["char_end"]))
    start, end = rows[0]["char_start"], max(row["char_end"] for row in rows)
    low, high = sentence_around(text, start, end, DEFAULT if language == AUTO else language)
    sentence = text[low:high]
    at = max(0, min(start - low - _BEFORE, len(sentence) - _CHARACTERS))
    first, last = between_words(sentence, at, min(len(sentence), at + _CHARACTERS))
    return {
        "document_id": document["document_id"],
        "source": document["source"],
        "text": sentence[first:last],
        "cut_before": first > 0,
        "cut_after": last < len(sentence),
        "marks": [
            {
                "start": row["char_start"] - low - first,
                "end": min(row["char_end"] - low, last) - first,
                "label": row["label"],
                "score": round(row["score"], 2),
            }
            for row in rows
            if row["char_start"] - low < last
        ],
    }

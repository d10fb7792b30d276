"""Outputs of `spanmarker tag` without a model: rows that are made, files and entries as a run would leave them."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.output.layout import TAG_TABLES, table_path
from pipelines.output.manifest import commit, identity_digest, make_folders, plan_path
from pipelines.output.plan_file import save_plan
from pipelines.stages.records import clean
from pipelines.storage import publish_bytes
from schemas import ANNOTATIONS, DOCUMENTS, REJECTS
from schemas.manifest import MANIFEST_VERSION, Entry, Output

IDENTITY = {
    "model": "m",
    "code": "c",
    "id_column": "id",
    "text_column": "text",
    "language": "en",
    "schema.annotations": "1",
}
LABELS = ("person", "organization", "location", "date", "product", "event", "work", "language")
_FILLER = "the quick report of today was read by many people in a large hall before it ended "


def begin(output: Path, identity: dict[str, str] = IDENTITY) -> None:
    """Make an output folder in which no shard is done."""
    make_folders(str(output))
    publish_bytes(str(output / "job.json"), json.dumps(identity).encode())
    save_plan(plan_path(str(output)), [], identity)


def add_shard(
    output: Path,
    stem: str,
    annotations: list[dict] | pa.Table,
    documents: list[dict] | pa.Table = (),
    rejects: list[dict] | pa.Table = (),
    *,
    number: int = 0,
    source: str = "/nowhere.jsonl",
    identity: dict[str, str] = IDENTITY,
    done: bool = True,
) -> str:
    """Write a shard's tables, and its entry if it is `done`; return its name."""
    digest = hashlib.blake2b(f"{stem} {number}".encode(), digest_size=8).hexdigest()
    name = f"{stem}-{number:05d}-{digest}"
    if not isinstance(rejects, pa.Table):
        rejects = [{"n_documents": 1, **reject} for reject in rejects]
    if isinstance(annotations, pa.Table):
        annotations = annotations.append_column(
            "source", pa.array([clean(source)] * len(annotations), pa.large_string())
        )
        annotations = annotations.append_column("source_row", pa.array([0] * len(annotations)))
    else:
        annotations = [{"source": clean(source), "source_row": 0, **row} for row in annotations]
    tables = {
        table.name: rows.cast(table.schema) if isinstance(rows, pa.Table) else _table(rows, table.schema)
        for table, rows in zip((ANNOTATIONS, DOCUMENTS, REJECTS), (annotations, documents, rejects), strict=True)
    }
    outputs = {}
    for table, rows in tables.items():
        path = Path(table_path(str(output), table, name))
        pq.write_table(rows, path, compression="zstd", row_group_size=1 << 17)
        outputs[table] = Output(len(rows), path.stat().st_size, "0" * 32)
    assert set(outputs) == {table.name for table in TAG_TABLES}
    if done:
        commit(str(output), _entry(name, source, identity, tables, outputs))
    return name


def _table(rows: list[dict], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist([{field.name: row.get(field.name) for field in schema} for row in rows], schema)


def _entry(
    name: str, source: str, identity: dict[str, str], tables: dict[str, pa.Table], outputs: dict[str, Output]
) -> Entry:
    def counted(values: pa.ChunkedArray) -> dict[str, int]:
        return {each["values"]: each["counts"] for each in values.value_counts().to_pylist()}

    documents = tables["documents"]
    counts = dict.fromkeys(("tagged", "empty", "rejected"), 0) | counted(documents["status"])
    counts |= {"documents": len(documents), "entities": len(tables["annotations"]), "words": 0, "unreadable": 0}
    return Entry(
        version=MANIFEST_VERSION,
        shard=name,
        source=source,
        files=[],
        job=identity_digest(identity),
        counts=counts,
        work={},
        reject_codes=counted(tables["rejects"]["code"]),
        reject_examples=[],
        labels=counted(tables["annotations"]["label"]),
        seconds={},
        peak_rss_bytes=1,
        outputs=outputs,
        versions={"code": "c"},
    )


def annotation(document_id: str, start: int, end: int, text: str, label: str = "person", **more: object) -> dict:
    """Return a row of annotations."""
    row = {
        "document_id": document_id,
        "sentence_id": 0,
        "entity_id": 0,
        "label": label,
        "score": 0.9,
        "text": text,
        "char_start": start,
        "char_end": end,
        "word_start": 0,
        "word_end": 1,
    }
    return row | more


def document(document_id: str | None, source: str, row: int | None, n_characters: int, **more: object) -> dict:
    """Return a row of documents."""
    numbers = dict.fromkeys(("n_sentences", "n_words", "n_long_words", "n_windows", "n_entities"), 1)
    first = {"document_id": document_id, "source": source, "source_row": row, "status": "tagged"}
    first |= {"language": "en", "language_from": "option"}
    return {**first, **numbers, "n_characters": n_characters, **more}


def big_output(output: Path, rows: int, shards: int, *, per_document: int = 20, seed: int = 1) -> None:
    """Make an output of `rows` annotations in so many shards, with a JSONL source for the first.

    Each document is a filler line with a surface every 60 characters, so offsets hold by construction.
    """
    begin(output)
    random = np.random.default_rng(seed)
    vocabulary = _surfaces(random, 200_000)
    each = rows // shards
    source = output.parent / f"{output.name}.jsonl"
    for number in range(shards):
        often, seldom = random.zipf(1.3, each) - 1, random.integers(0, len(vocabulary), each)
        places = np.where((random.random(each) < 0.5) & (often < len(vocabulary)), often, seldom)
        annotations, n_documents = _annotations(random, vocabulary, places, number, per_document)
        positions = np.arange(n_documents) * 100
        length = per_document * 60
        if number == 0:
            positions = _write_source(source, annotations, n_documents, length)
        documents = pa.table(
            {
                "document_id": [f"doc-{number:05d}-{place:06d}" for place in range(n_documents)],
                "source": pa.array([str(source) if number == 0 else f"/gone/{number}.jsonl"] * n_documents),
                "source_row": positions,
                "status": pa.array(["tagged"] * n_documents),
                "n_characters": np.full(n_documents, length),
                **{name: np.full(n_documents, per_document, np.int32) for name in _NUMBERS},
                "language": pa.array(["en"] * n_documents),
                "language_from": pa.array(["option"] * n_documents),
            }
        )
        add_shard(output, "big", annotations, documents, number=number, source=str(source))


_NUMBERS = ("n_sentences", "n_words", "n_long_words", "n_windows", "n_entities")


def _surfaces(random: np.random.Generator, count: int) -> np.ndarray:
    syllables = np.array([a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "er", "ör")])
    words = ["".join(random.choice(syllables, size)).capitalize() for size in random.integers(1, 5, count)]
    second = random.integers(0, count, count)
    pairs = [word if place % 3 else f"{word} {words[second[place]]}" for place, word in enumerate(words)]
    return np.array([pair[:40] for pair in pairs], object)


def _annotations(
    random: np.random.Generator, vocabulary: np.ndarray, places: np.ndarray, shard: int, per_document: int
) -> tuple[pa.Table, int]:
    count = len(places)
    lengths = np.array([len(word) for word in vocabulary])[places]
    owners, within = np.arange(count) // per_document, np.arange(count) % per_document
    n_documents = int(owners[-1]) + 1
    ids = pa.array([f"doc-{shard:05d}-{place:06d}" for place in range(n_documents)], pa.large_string())
    words = pa.array(vocabulary, pa.large_string())
    starts = within * 60
    columns = {
        "document_id": ids.take(pa.array(owners)),
        "sentence_id": (within // 2).astype(np.int32),
        "entity_id": within.astype(np.int32),
        "label": pa.array(LABELS, pa.large_string()).take(pa.array(np.minimum(places % 11, len(LABELS) - 1))),
        "score": (1 - random.random(count) ** 3 / 2).astype(np.float32),
        "text": words.take(pa.array(places)),
        "char_start": starts,
        "char_end": starts + lengths,
        "word_start": within.astype(np.int32),
        "word_end": (within + 1).astype(np.int32),
    }
    return pa.table(columns), n_documents


def _write_source(path: Path, annotations: pa.Table, n_documents: int, length: int) -> np.ndarray:
    pieces: list[list[str]] = [[] for _ in range(n_documents)]
    ids = annotations["document_id"].to_pylist()
    for document_id, start, word in zip(
        ids, annotations["char_start"].to_pylist(), annotations["text"].to_pylist(), strict=True
    ):
        place = int(document_id.rpartition("-")[2])
        filler = _FILLER * 2
        pieces[place].append(
            (word + " " + filler)[: 59 if start % 120 == 0 else 58] + (" " if start % 120 == 0 else ". ")
        )
    offsets, offset = np.zeros(n_documents, np.int64), 0
    with open(path, "wb") as file:
        for place, parts in enumerate(pieces):
            text = "".join(parts).ljust(length)
            assert len(text) == length
            line = json.dumps({"id": f"doc-00000-{place:06d}", "text": text}, ensure_ascii=False).encode() + b"\n"
            file.write(line)
            offsets[place] = offset
            offset += len(line)
    return offsets

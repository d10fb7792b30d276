"""Corpora, jobs and rows for the tests of the pipelines."""

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from pipelines import cli
from pipelines.jobs.prepare import PrepareJob
from pipelines.jobs.tag import TagJob
from pipelines.runs.run import run_job

TEXTS = [
    "Barack Obama was in Paris. He flew to New York.",
    "  Müller of Zürich and the London of it.  ",
    "😀 Obama 👩‍👩‍👧 flew to 한글 and שלום.\n\nThe ﬁne York\u2063.",
    "",
    "the a of and in to was is\n" * 30,
]

#: Shards of a few documents each.
SMALL = {"max_shard_bytes": 600}


def documents(count, prefix="doc"):
    return [{"id": f"{prefix}-{number}", "text": TEXTS[number % len(TEXTS)]} for number in range(count)]


def slow_documents(count, prefix="doc"):
    """Documents of which every fifth takes a tenth of a second where `tests/faults/killers` is on PYTHONPATH."""
    slow = {TEXTS[0]: f"{TEXTS[0]} SLOWSPLIT"}
    return [record | {"text": slow.get(record["text"], record["text"])} for record in documents(count, prefix)]


def write_jsonl(path: Path, records) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [r if isinstance(r, bytes) else json.dumps(r, ensure_ascii=False).encode() for r in records]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def write_parquet(path: Path, records, **options) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(records), path, **options)
    return path


def tag(inputs, output, model, **options) -> str:
    """Run a job with the inline engine; return what it printed."""
    console = Console(file=io.StringIO(), width=200)
    values = {"engine": "inline", **options}
    run_job(TagJob(input=list(map(str, inputs)), output=str(output), model=str(model), **values), console)
    return console.file.getvalue()


def spanmarker(*arguments: object, columns: int = 400) -> subprocess.CompletedProcess[str]:
    """Run a command in this process, as a shell would: with its exit code and all that it prints."""
    out, err = (
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors=errors, write_through=True)
        for errors in ("strict", "backslashreplace")
    )
    words = ["spanmarker", *map(str, arguments)]
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "argv", words),
        mock.patch.dict(os.environ, {"COLUMNS": str(columns)}),
    ):
        try:
            cli.main()
            code: object = 0
        except SystemExit as end:
            code = end.code or 0
    printed = (stream.buffer.getvalue().decode() for stream in (out, err))
    return subprocess.CompletedProcess(words, code, *printed)


def prepare(inputs, output, model, **options) -> str:
    """Run a job that prepares samples with the inline engine; return what it printed."""
    console = Console(file=io.StringIO(), width=200)
    values = {"engine": "inline", **options}
    run_job(PrepareJob(input=list(map(str, inputs)), output=str(output), model=str(model), **values), console)
    return console.file.getvalue()


def rows(output: Path, table: str) -> list[dict]:
    """All rows of a table, in an order that does not depend on how the work was cut."""
    found = []
    for path in sorted((Path(output) / table).glob("*.parquet")):
        found += pq.read_table(path).to_pylist()
    return sorted(found, key=lambda row: json.dumps(row, default=repr, sort_keys=True))


def all_rows(output: Path) -> dict[str, list[dict]]:
    return {table: rows(output, table) for table in ("annotations", "documents", "rejects")}


def assert_same_rows(found: dict[str, list[dict]], expected: dict[str, list[dict]]) -> None:
    """Rows of two runs are equal; scores to what float32 sums in another order allow."""
    assert found["documents"] == expected["documents"]
    assert found["rejects"] == expected["rejects"]
    assert_same_annotations(found["annotations"], expected["annotations"])


def assert_same_annotations(found: list[dict], expected: list[dict], places: bool = True) -> None:
    """Annotations are equal, also in the places of their documents unless `places` is false."""

    def key(row):
        return row["document_id"], row["entity_id"]

    other = {"score": 0} if places else {"score": 0, "source": "", "source_row": 0}
    found, expected = sorted(found, key=key), sorted(expected, key=key)
    assert [row | other for row in found] == [row | other for row in expected]
    assert [row["score"] for row in found] == pytest.approx([row["score"] for row in expected], abs=1e-5)


def codes(output: Path) -> list[tuple[str | None, str]]:
    return sorted(((row["document_id"], row["code"]) for row in rows(output, "rejects")), key=str)


def write_two_files(folder):
    """Write a.jsonl and b.jsonl, of twelve documents each, and return the folder."""
    for name in "ab":
        write_jsonl(folder / f"{name}.jsonl", documents(12, name))
    return folder


def report(out):
    """Return the report of an output."""
    return json.loads((out / "report.json").read_text())


def written(out):
    """Return when each Parquet file of an output was written, in nanoseconds."""
    return {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")}

"""A campaign against damaged files: seeded single bytes and truncations, many files in each run.

    python -m tests.faults.mutations --cases 100000 --seed 7     # the campaign; prints what became of the cases
    python -m tests.faults.mutations --h1                        # every bit of one small Parquet file
    python -m tests.faults.mutations --reading --cases 100000    # plans and reads only, which takes a tenth of the time

In each run, damaged files lie beside sound ones. The run must end well, every damaged file must be accounted for (all
its documents have a row, or a reject names the file), and the sound files must be tagged whole.
"""

import argparse
import gzip
import io
import itertools
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import zstandard

from pipelines.planning.documents import document_ranges
from pipelines.planning.files import file_shards
from pipelines.planning.inputs import BadColumns
from pipelines.shards.careful import CarefulAttempt
from pipelines.stages.read import batched, read_records
from pipelines.task import Columns, Task
from spanmarker_core.data.blocks import DamagedFile, decompressed
from tests.support.tiny import tiny_bundle
from tests.support.training import write_encoder

TEXT = "Barack Müller flew to Zürich and New York {}."
DOCUMENTS = 12


@dataclass(frozen=True)
class Original:
    """A sound file: its ending, its content, and how many documents it holds."""

    ending: str
    content: bytes
    documents: int = DOCUMENTS


@dataclass
class Case:
    """A damaged file: what it was made of, and how."""

    original: Original
    content: bytes
    damage: str

    @property
    def expected(self) -> int:
        """How many documents the damaged file holds: of lines as many as there are, whatever is in them."""
        if self.original.ending == ".conll":  # Each sentence is a document; a blank line ends it.
            lines = [line.strip() for line in self.content.split(b"\n")]
            return sum(bool(line) and not before for before, line in itertools.pairwise([b"", *lines]))
        if ".jsonl" in self.original.ending:
            content = io.BytesIO(self.content)
            kind = self.original.ending.removeprefix(".")
            try:
                lines = self.content if kind == "jsonl" else b"".join(decompressed(content, kind))
            except DamagedFile:
                return self.original.documents
            return sum(bool(line.strip()) for line in lines.split(b"\n"))
        return self.original.documents


def corpus_files() -> list[Original]:
    """Files of documents: Parquet of several codecs and page versions, JSON lines in all compressions."""
    table = pa.table({"id": [f"d{n}" for n in range(DOCUMENTS)], "text": [TEXT.format(n) for n in range(DOCUMENTS)]})
    found = []
    codecs = ("none", "snappy", "gzip", "zstd", "lz4", "brotli")
    for codec, page, dictionary in itertools.product(codecs, ("1.0", "2.0"), (True, False)):
        sink = io.BytesIO()
        pq.write_table(
            table,
            sink,
            row_group_size=5,
            compression=codec,
            data_page_version=page,
            use_dictionary=dictionary,
            write_page_checksum=codec == "brotli",
            store_schema=codec != "lz4",
            write_page_index=codec == "gzip",
        )
        found.append(Original(".parquet", sink.getvalue()))
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in table.to_pylist()).encode()
    compressed = zstandard.ZstdCompressor().compress(lines)
    found += [Original(".jsonl", lines)] * 4 + [Original(".jsonl.gz", gzip.compress(lines, mtime=0))] * 4
    return found + [Original(".jsonl.zst", compressed)] * 4


def annotated_files() -> list[Original]:
    """Files of annotated sentences, each of which is a document."""
    words = ["Barack", "Müller", "flew", "to", "Zürich"]
    rows = [
        {"document_id": f"d{n}", "sentence_id": 0, "tokens": words, "entities": [{"start": 0, "end": 2, "label": "P"}]}
        for n in range(DOCUMENTS)
    ]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink, row_group_size=5)
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    tags = ["B-P", "I-P", "O", "O", "B-L"]
    conll = "\n".join("".join(f"{word} {tag}\n" for word, tag in zip(words, tags, strict=True)) for _ in rows).encode()
    return [
        Original(".parquet", sink.getvalue()),
        Original(".jsonl", lines),
        Original(".jsonl.zst", zstandard.ZstdCompressor().compress(lines)),
        Original(".conll", conll),
    ]


def damaged(originals: list[Original], seed: int) -> Iterator[Case]:
    """Yield cases without end: a byte of another value, a flipped bit, or a file cut short."""
    draw = random.Random(seed)
    while True:
        original = draw.choice(originals)
        content = bytearray(original.content)
        position = draw.randrange(len(content))
        kind = draw.random()
        if kind < 0.15:
            del content[position:]
            damage = f"cut at {position}"
        else:
            before = content[position]
            content[position] = before ^ 1 << draw.randrange(8) if kind < 0.6 else draw.randrange(256)
            if content[position] == before:
                continue
            damage = f"byte {position} from {before} to {content[position]}"
        yield Case(original, bytes(content), damage)


def every_bit(original: Original) -> Iterator[Case]:
    """Yield a case for each bit of a file."""
    for position, bit in itertools.product(range(len(original.content)), range(8)):
        content = bytearray(original.content)
        content[position] ^= 1 << bit
        yield Case(original, bytes(content), f"byte {position}, bit {bit}")


def h1_file() -> Original:
    """Forty documents in four row groups, of which a wrong byte in a page header once lost ten without a word."""
    sink = io.BytesIO()
    table = pa.table({"id": [f"d{n}" for n in range(40)], "text": ["Müller flew to Zürich i"] * 40})
    pq.write_table(table, sink, row_group_size=10)
    return Original(".parquet", sink.getvalue(), 40)


def run_batch(folder: Path, cases: list[Case], originals: list[Original], command: list[str]) -> Counter[str]:
    """Run a command over damaged files and one sound file of each ending; return what became of the cases.

    Args:
        folder: an empty folder.
        cases: the damaged files.
        originals: the sound files.
        command: what to run; gets inputs and output.

    Raises:
        AssertionError: the run failed, a case is not accounted for, or a sound file is not whole.
    """
    inputs = folder / "in"
    inputs.mkdir()
    sound = {}
    for original in originals:
        sound.setdefault(original.ending, original)
    for ending, original in sound.items():
        (inputs / f"sound{ending}").write_bytes(original.content)
    for number, case in enumerate(cases):
        (inputs / f"{number:05}{case.original.ending}").write_bytes(case.content)
    output = folder / "out"
    patterns = [word for ending in sound for word in ("--input", f"{inputs}/*{ending}")]
    done = subprocess.run(
        [sys.executable, "-m", "pipelines.cli", *command, *patterns, "--output", str(output), "--workers", "2"],
        capture_output=True,
        text=True,
        timeout=3000,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-3000:]
    assert "Traceback" not in said, said[-3000:]

    good, rejects = _documents_and_rejects(output)
    numbers = Counter(Path(source).name for source in good)
    codes: dict[str, list[tuple[str, int]]] = {}
    for row in rejects:
        codes.setdefault(Path(row["source"]).name, []).append((row["code"], row["n_documents"]))
    for ending, original in sound.items():
        assert f"sound{ending}" not in codes
        assert numbers[f"sound{ending}"] == original.documents
    outcomes: Counter[str] = Counter()
    for number, case in enumerate(cases):
        name = f"{number:05}{case.original.ending}"
        found, rejected = numbers[name], codes.get(name, [])
        whole = found >= case.expected
        # The rows that a reject stands for, or a part of the file in which nobody knows how many there are. A damaged
        # line may have become two, or one with its neighbour.
        told = found + sum(count for _, count in rejected) >= case.expected or any(count == 0 for _, count in rejected)
        assert whole or told, f"{case.original.ending}, {case.damage}: {found}, {rejected}"
        outcomes["all documents" if whole else f"rejected: {rejected[0][0]}" if rejected else "whole"] += 1
    return outcomes


def _documents_and_rejects(output: Path) -> tuple[list[str], list[dict]]:
    """Return the sources of the documents that were not rejected, one each, and the rejects of an output."""
    columns = ["source", "code", "n_documents"]
    if (output / "inputs").exists():  # prepared documents
        rows = ds.dataset(output / "inputs", format="ipc").to_table(columns=columns).to_pylist()
        return [row["source"] for row in rows if row["code"] is None], [row for row in rows if row["code"]]
    documents = ds.dataset(output / "documents", format="parquet").to_table(columns=["source", "status"]).to_pylist()
    rejects = ds.dataset(output / "rejects", format="parquet").to_table(columns=columns).to_pylist()
    return [row["source"] for row in documents if row["status"] != "rejected"], rejects


def read_all(cases: Iterator[Case], folder: Path) -> Counter[str]:
    """Plan and read each case in isolated processes, as a last attempt does; return what became of them.

    Raises:
        AssertionError: a case is not accounted for.
    """
    outcomes: Counter[str] = Counter()
    started = time.monotonic()
    columns = Columns("id", "text")
    task = Task(str(folder), "", "", "", columns, "en", "", 0, 0.0, 0, ())
    with CarefulAttempt(task, lambda: None) as attempt:
        for number, case in enumerate(cases, 1):
            path = folder / f"case{case.original.ending}"
            path.write_bytes(case.content)
            kind = case.original.ending.removeprefix(".")
            args = (kind, columns, 4 << 20)
            try:
                shards = list(file_shards(str(path), len(case.content), "", 0, document_ranges, *args))
            except BadColumns:  # one reject, where other files have the columns
                outcomes["bad columns"] += 1
                continue
            good, rejects = 0, []
            for shard in shards:
                for batch in batched(attempt.records(shard, read_records, columns)):
                    good += len(batch.documents)
                    rejects += batch.rejects
            accounted = good + sum(reject.n_documents for reject in rejects) >= case.expected
            accounted = accounted or any(reject.n_documents == 0 for reject in rejects)
            assert accounted, f"{case.original.ending}, {case.damage}: {good}, {rejects}"
            outcomes[f"rejected: {rejects[0].code}" if rejects else "all documents"] += 1
            if number % 5000 == 0:
                print(f"{number:,} cases, {time.monotonic() - started:,.0f} s: {dict(outcomes)}", flush=True)
    return outcomes


def document_command(folder: Path, verb: str = "tag") -> list[str]:
    """Return the command that tags, or prepares, documents with a tiny model, which is written to `folder`."""
    return [verb, "--model", str(tiny_bundle(folder / "model"))]


def annotated_command(folder: Path) -> list[str]:
    """Return the command that prepares annotated data for a tiny encoder, which is written to `folder`."""
    write_encoder(folder / "encoder")
    limits = ["--max-tokens", "48", "--entity-max-length", "4"]
    return ["prepare", "--annotated", "--scheme", "IOB2", "--encoder", str(folder / "encoder"), *limits]


def campaign(cases: Iterator[Case], originals: list[Original], command: list[str], size: int) -> Counter[str]:
    """Run all cases, `size` of them at a time; return what became of them."""
    outcomes: Counter[str] = Counter()
    started, count = time.monotonic(), 0
    while batch := list(itertools.islice(cases, size)):
        folder = Path(tempfile.mkdtemp(prefix="mutations-"))
        outcomes += run_batch(folder, batch, originals, command)
        shutil.rmtree(folder)  # A batch that fails is left for whoever looks into it.
        count += len(batch)
        print(f"{count:,} cases, {time.monotonic() - started:,.0f} s: {dict(outcomes)}", flush=True)
    return outcomes


def main() -> None:
    """Run the campaign that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batch", type=int, default=5000, help="damaged files in a run")
    parser.add_argument("--h1", action="store_true", help="every bit of one small Parquet file instead")
    parser.add_argument("--reading", action="store_true", help="plan and read only")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.reading:
            cases = every_bit(h1_file()) if options.h1 else damaged(corpus_files(), options.seed)
            print(dict(read_all(itertools.islice(cases, None if options.h1 else options.cases), folder)))
            return
        if options.h1:
            originals = [h1_file()]
            campaign(every_bit(originals[0]), originals, document_command(folder), options.batch)
            return
        annotated = options.cases // 5
        originals = corpus_files()
        cases = itertools.islice(damaged(originals, options.seed), options.cases - annotated)
        campaign(cases, originals, document_command(folder), options.batch)
        originals = annotated_files()
        cases = itertools.islice(damaged(originals, options.seed + 1), annotated)
        campaign(cases, originals, annotated_command(folder), options.batch)


if __name__ == "__main__":
    main()

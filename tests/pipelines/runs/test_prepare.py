import gzip
import json
import os
import subprocess
import sys
from dataclasses import asdict
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.errors import PipelineError
from pipelines.jobs.tag import TagJob
from pipelines.output.manifest import identity_digest, make_folders, planned, read_entries
from pipelines.runs.prepared_samples import find_prepared_samples
from pipelines.shards import corpus as sharding
from pipelines.shards import runner
from pipelines.shards.worker import Done, attempt
from pipelines.stages.pack import encode, pack_runs
from pipelines.stages.tag import tag as real_tag
from schemas import PREPARED, SAMPLES
from spanmarker_core.bundle.reader import read_info
from spanmarker_core.windows.packer import Context, Packer
from tests.pipelines.shards.test_corpus import long_documents
from tests.support.jobs import all_rows, codes, documents, prepare, spanmarker, tag, write_jsonl, write_parquet
from tests.support.tiny import tiny_bundle as write_bundle

TABLES = ("annotations", "documents", "rejects")


def tag_samples(samples, output, model, **options) -> str:
    return tag([], output, model, samples=str(samples), **options)


def ugly_corpus(folder) -> list[str]:
    """Files with every kind of record and file that there is no tagging."""
    lines = [
        *documents(5),
        {"id": "n", "text": None},
        {"id": None, "text": "Paris"},
        {"id": True, "text": "Paris"},
        {"id": 7, "text": ["Paris"]},
        b'{"id": "broken", "text": "Par',
        b'{"id": "bytes", "text": "Z\xfcrich"}',
        b'{"id": "half", "text": "\\ud800"}',
        {"id": "no-text"},
        ["a", "list"],
        b"   ",
        {"id": "doc-1", "text": "The same id again."},
        {"id": "blank", "text": " \n\t\u2028 "},
        {"id": "bad-encode", "text": "London is where it fails."},
        {"id": "bad-tag", "text": "New York. And London, where it fails."},
        *long_documents()[3:],
    ]
    write_jsonl(folder / "a.jsonl", lines)
    packed = gzip.compress(b"".join(json.dumps(document).encode() + b"\n" for document in documents(9, "gz")))
    (folder / "b.jsonl.gz").write_bytes(packed[:-40])
    (folder / "c.parquet").write_bytes(b"no Parquet at all \xff")
    rows = [{"id": f"p{number}", "text": "Obama flew to Paris. " * 8 + str(number)} for number in range(9)]
    write_parquet(folder / "d.parquet", [*rows, {"id": "p3", "text": "again"}, {"id": "np", "text": None}])
    write_parquet(folder / "e.parquet", rows, row_group_size=3, compression="none", use_dictionary=False)
    content = bytearray((folder / "e.parquet").read_bytes())
    place = pq.read_metadata(folder / "e.parquet").row_group(1).column(1).data_page_offset
    content[place : place + 8] = b"\xff" * 8
    (folder / "e.parquet").write_bytes(content)
    (folder / "t").mkdir()
    (folder / "t" / "good.txt").write_text("Müller of Zürich.")
    (folder / "t" / "latin.txt").write_bytes("Zürich".encode("latin-1"))
    (folder / "t" / "empty.txt").write_bytes(b"")
    with open(os.fsencode(folder / "t") + b"/name\xff.txt", "w") as file:
        file.write("A name that is no UTF-8.")
    return [str(folder / pattern) for pattern in ("*.jsonl", "*.gz", "*.parquet", "t/**/*.txt")]


@pytest.fixture
def faulty(monkeypatch):
    """Make documents fail where they are encoded, packed (in a run in the middle) and tagged; cut runs small."""
    windows = Packer.windows

    def faulty_encode(sentences, *args):
        if "bad-encode" in sentences["document_id"].to_pylist():
            raise ValueError("not to be encoded")
        return encode(sentences, *args)

    def faulty_windows(self, encoded, plan, **values):
        starts = values["char_starts"][plan.sentence_start]
        if ((starts > 2000) & (starts < 2100)).any():  # only the long one goes so far
            raise ValueError("not to be packed")
        return windows(self, encoded, plan, **values)

    def faulty_tag(samples, *args):
        if "bad-tag" in samples.document_ids.to_pylist():
            raise ValueError("not to be tagged")
        return real_tag(samples, *args)

    monkeypatch.setattr(sharding, "encode", faulty_encode)
    monkeypatch.setattr(Packer, "windows", faulty_windows)
    monkeypatch.setattr(sharding, "tag", faulty_tag)
    monkeypatch.setattr(runner, "pack_runs", partial(pack_runs, max_bytes=20_000))


def entries(output) -> list[dict]:
    """Entries of an output, without what differs from run to run."""
    found = [asdict(entry) for entry in read_entries(str(output))]
    assert found
    return [{name: value for name, value in e.items() if name not in ("seconds", "peak_rss_bytes")} for e in found]


def files(output) -> dict[str, bytes]:
    return {str(p.relative_to(output)): p.read_bytes() for table in TABLES for p in (output / table).glob("*.parquet")}


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["sentence", "document", "block"])
def test_staged_is_fused_to_the_byte(policy, tmp_path, faulty):
    bundle = write_bundle(tmp_path / "bundle", context=Context(policy))
    (tmp_path / "in").mkdir()
    inputs = ugly_corpus(tmp_path / "in")
    options = {"max_shard_bytes": 20_000, "language": "de"}
    tag(inputs, tmp_path / "fused", bundle, **options)
    prepare(inputs, tmp_path / "samples", bundle, **options)
    tag_samples(tmp_path / "samples", tmp_path / "staged", bundle)

    rejected = {code for _, code in codes(tmp_path / "fused")}
    assert rejected == {
        *("null_text", "null_id", "bad_id", "not_text", "broken_json", "invalid_utf8", "invalid_unicode"),
        *("missing_field", "duplicate_id", "damaged_file", "unreadable_file", "unreadable_rows"),
        *("pack_failed", "tag_failed"),
    }
    failed = [document for document, code in codes(tmp_path / "fused") if code in ("pack_failed", "tag_failed")]
    assert failed == ["bad-encode", "bad-tag", "long"]
    assert len(entries(tmp_path / "fused")) > 5
    assert entries(tmp_path / "staged") == entries(tmp_path / "fused")
    assert all_rows(tmp_path / "staged") == all_rows(tmp_path / "fused")
    assert files(tmp_path / "staged") == files(tmp_path / "fused")


def test_what_is_prepared(tmp_path, tiny_bundle, faulty):
    (tmp_path / "in").mkdir()
    inputs, folder = ugly_corpus(tmp_path / "in"), tmp_path / "samples"
    prepare(inputs, folder, tiny_bundle)
    tag(inputs, tmp_path / "out", tiny_bundle)
    by_source = {entry.source: entry for entry in read_entries(str(tmp_path / "out"))}
    for entry in read_entries(str(folder)):
        tagged, counts = by_source[entry.source], dict(entry.counts)
        in_tagging = tagged.reject_codes.get("tag_failed", 0)
        assert counts["documents"] == counts["prepared"] + counts["empty"] + counts["rejected"]
        assert counts["rejected"] == tagged.counts["rejected"] - in_tagging
        if not in_tagging:
            assert counts["words"] == tagged.counts["words"]
            assert counts["windows"] == tagged.counts["windows"]
        for table in (SAMPLES, PREPARED):
            path = folder / table.name / f"{entry.shard}.arrow"
            file = pa.ipc.open_file(path)
            assert file.schema.equals(table.schema)
            metadata = file.schema.metadata
            assert metadata[b"spanmarker.schema_version"] == str(table.version).encode()
            assert metadata[b"spanmarker.shard"] == entry.shard.encode()
            assert file.read_all().num_rows == entry.outputs[table.name].rows
            assert path.stat().st_size == entry.outputs[table.name].n_bytes
    (shard,) = (shard for shard in planned(str(folder)) if shard.source.endswith("a.jsonl"))
    samples = pa.ipc.open_file(folder / "samples" / f"{shard.name}.arrow")
    marks = [samples.get_batch_with_custom_metadata(n).custom_metadata for n in range(samples.num_record_batches)]
    assert len(marks) > pa.ipc.open_file(folder / "inputs" / f"{shard.name}.arrow").num_record_batches
    assert [int(mark[b"spanmarker.group"]) for mark in marks if mark[b"spanmarker.last"] == b"1"] == list(
        range(pa.ipc.open_file(folder / "inputs" / f"{shard.name}.arrow").num_record_batches)
    )


def test_nothing_left_to_do_and_a_lost_file(tmp_path, tiny_bundle):
    corpus = write_jsonl(tmp_path / "in.jsonl", documents(40))
    folder, options = tmp_path / "samples", {"max_shard_bytes": 600}
    assert "40 documents = 32 prepared + 8 empty + 0 rejected" in prepare([corpus], folder, tiny_bundle, **options)
    before = {path: path.read_bytes() for path in folder.rglob("*.arrow")}
    assert len(before) > 6
    assert "Nothing to do" in prepare([corpus], folder, tiny_bundle, **options)
    lost = sorted(folder.glob("inputs/*.arrow"))[1]
    lost.unlink()
    with pytest.raises(PipelineError) as caught:
        tag_samples(folder, tmp_path / "out", tiny_bundle)
    assert caught.value.code == "samples.not_ready"
    assert caught.value.values == {"path": str(folder), "left": 1, "total": len(before) // 2}
    assert "1 output lost or damaged" in prepare([corpus], folder, tiny_bundle, **options)
    assert {path: path.read_bytes() for path in folder.rglob("*.arrow")} == before
    tag_samples(folder, tmp_path / "out", tiny_bundle)
    assert len(all_rows(tmp_path / "out")["documents"]) == 40


@pytest.mark.slow
def test_an_output_is_filled_either_way(tmp_path, tiny_bundle):
    """With samples in an object store."""
    for name in "abc":
        write_jsonl(tmp_path / "in" / f"{name}.jsonl", documents(8, name))
    every = str(tmp_path / "in" / "*.jsonl")
    tag([every], tmp_path / "fused", tiny_bundle)
    samples = f"memory://prepare{tmp_path}/samples"
    prepare([every], samples, tiny_bundle)
    tag([str(tmp_path / "in" / "a.jsonl")], tmp_path / "both", tiny_bundle)
    assert "3 shards: 1 done before, 2 to do" in tag_samples(samples, tmp_path / "both", tiny_bundle)
    assert "Nothing to do" in tag([every], tmp_path / "both", tiny_bundle)
    assert "Nothing to do" in tag_samples(samples, tmp_path / "fused", tiny_bundle)
    assert files(tmp_path / "both") == files(tmp_path / "fused")


@pytest.mark.slow
def test_samples_stand_for_the_documents_that_were_read(tmp_path, tiny_bundle):
    corpus = write_jsonl(tmp_path / "in" / "a.jsonl", documents(8))
    tag([corpus], tmp_path / "before", tiny_bundle)
    prepare([corpus], tmp_path / "samples", tiny_bundle)
    write_jsonl(corpus, documents(9, "other"))
    tag_samples(tmp_path / "samples", tmp_path / "out", tiny_bundle)
    assert files(tmp_path / "out") == files(tmp_path / "before")
    tag([corpus], tmp_path / "after", tiny_bundle)
    prepare([corpus], tmp_path / "samples", tiny_bundle)
    assert "1 removed because the input changed" in tag_samples(tmp_path / "samples", tmp_path / "out", tiny_bundle)
    assert files(tmp_path / "out") == files(tmp_path / "after")


@pytest.mark.slow
def test_a_file_that_was_damaged_costs_its_shard_and_no_other(tmp_path, tiny_bundle):
    corpus = write_jsonl(tmp_path / "in.jsonl", documents(20))
    folder = tmp_path / "samples"
    prepare([corpus], folder, tiny_bundle, max_shard_bytes=600)
    damaged = sorted(folder.glob("samples/*.arrow"))[1]
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    info, out = read_info(tiny_bundle), str(tmp_path / "out")
    samples = find_prepared_samples(TagJob(samples=str(folder), output=out, model=str(tiny_bundle)), info)
    digest = identity_digest(samples.tagging.identity(info))
    make_folders(out)
    outcomes = [attempt(shard, samples.task(info, digest)) for shard in samples.shards(digest)]
    (failed,) = (outcome for outcome in outcomes if not isinstance(outcome, Done))
    assert len(outcomes) > 3
    assert not failed.retry
    reason = failed.reason
    assert "samples.damaged" in reason
    assert str(damaged) in reason
    damaged.unlink()
    prepare([corpus], folder, tiny_bundle, max_shard_bytes=600)
    tag_samples(folder, tmp_path / "out", tiny_bundle)
    assert len(all_rows(tmp_path / "out")["documents"]) == 20


def test_samples_that_are_not_for_the_job_are_refused(tmp_path, tiny_bundle):
    corpus, out = write_jsonl(tmp_path / "in.jsonl", documents(8)), tmp_path / "out"
    prepare([corpus], tmp_path / "samples", tiny_bundle)
    other = write_bundle(tmp_path / "other", max_tokens=32)
    refused = partial(pytest.raises, PipelineError)
    with refused(match=r"samples.other_job.*\n  --model: \w+… there, \w+… here\n"):
        tag_samples(tmp_path / "samples", out, other)
    with refused(match=r"samples.other_job.*\n  --language: en there, de here\n  --text-column: text there, x here"):
        tag_samples(tmp_path / "samples", out, tiny_bundle, language="de", text_column="x")
    plan = tmp_path / "samples" / "plan.jsonl"
    content = plan.read_text()
    for key, value in (("code", "0.0"), ("schema.samples", "0")):
        header, rest = content.split("\n", 1)
        header = json.loads(header)
        header["job"][key] = value
        plan.write_text(json.dumps(header) + "\n" + rest)
        with refused(match=rf"samples.other_job.*\n  {key}: {value} there, "):
            tag_samples(tmp_path / "samples", out, tiny_bundle)
    plan.write_text(content.replace('"plan_version": ', '"plan_version": 9'))
    with refused(match=r"plan.other_version.*9"):
        tag_samples(tmp_path / "samples", out, tiny_bundle)
    plan.write_text(content)
    tag([corpus], tmp_path / "rows", tiny_bundle)
    for folder in ("rows", "nothing"):
        with refused(match=rf"samples.not_prepared.*{tmp_path / folder}"):
            tag_samples(tmp_path / folder, out, tiny_bundle)
    with refused(match=r"output.is_input"):
        tag_samples(tmp_path / "samples", tmp_path / "samples", tiny_bundle)
    assert not out.exists()
    tag_samples(tmp_path / "samples", out, tiny_bundle, language="en")


@pytest.mark.slow
def test_a_worker_that_prepares_has_no_torch(tmp_path, tiny_bundle):
    corpus = write_jsonl(tmp_path / "in.jsonl", documents(8))
    program = """
import sys
from pipelines.output.layout import SAMPLE_TABLES
from pipelines.output.manifest import make_folders
from pipelines.planning.documents import plan_shards
from pipelines.planning.shard_sizes import ShardSizes
from pipelines.jobs.prepare import PrepareJob
from pipelines.processes.thread_limits import prepare_process
from pipelines.shards.worker import attempt, facts
from spanmarker_core.bundle.reader import read_info
corpus, output, model = sys.argv[1:]
job = PrepareJob(input=[corpus], output=output, model=model)
info = read_info(model)
task = job.task(info, "0" * 32)
make_folders(output, SAMPLE_TABLES)
shards = plan_shards([corpus], output=output, columns=task.columns, shard_sizes=ShardSizes(1000), job_digest=task.job)
prepare_process(1)
facts(task)
print([type(attempt(shard, task)).__name__ for shard in shards], "torch" in sys.modules, "transformers" in sys.modules)
"""
    arguments = [sys.executable, "-c", program, str(corpus), str(tmp_path / "samples"), str(tiny_bundle)]
    ran = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "['Done', 'Done'] False False"


def test_on_the_command_line(tmp_path, tiny_bundle):
    corpus = write_jsonl(tmp_path / "in.jsonl", [*documents(20), {"id": "n", "text": None}])
    shared = ("--input", corpus, "--output", tmp_path / "s", "--max-shard-bytes", 600, "--model", tiny_bundle)
    shared += ("--engine", "inline")
    assert f"Rows: {tmp_path / 's' / 'samples'}" in spanmarker("prepare", *shared).stdout
    status = spanmarker("status", tmp_path / "s").stdout
    assert "prepared" in status
    assert "rejected, null_text: 1" in status
    assert "0 left" in status
    report = (tmp_path / "s" / "report.md").read_text()
    assert "21 documents = 16 prepared + 4 empty + 1 rejected" in report

import gzip
import pickle
from dataclasses import replace
from functools import partial, reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from pipelines.errors import PipelineError
from pipelines.jobs.tag import TagJob
from pipelines.output.job_identity import acquire
from pipelines.output.manifest import find_done, identity_digest, make_folders, read_entries
from pipelines.shards import corpus as sharding
from pipelines.shards import runner
from pipelines.shards.progress import ShardProgress
from pipelines.shards.worker import run_shard
from pipelines.stages.pack import pack_runs
from pipelines.stages.tag import tag as real_tag
from schemas import ANNOTATIONS, DOCUMENTS, REJECTS
from spanmarker_core.bundle.reader import read_info
from spanmarker_core.inference import scorer
from spanmarker_core.text.sentences import split_sentences
from spanmarker_core.windows.packer import Context
from tests.pipelines.planning.test_documents import shards
from tests.support.jobs import (
    all_rows,
    assert_same_annotations,
    assert_same_rows,
    codes,
    documents,
    rows,
    write_jsonl,
    write_parquet,
)
from tests.support.tiny import short_of_memory


@pytest.fixture
def job(tmp_path, tiny_bundle):
    """A function from records to (shard, task), with the output folder claimed."""
    info = read_info(tiny_bundle)

    def make(records, **options):
        given = TagJob(input=["x"], output=str(tmp_path / "out"), model=str(tiny_bundle), **options)
        make_folders(given.output)
        acquire(given.output, given.identity(info))
        (shard,) = shards(write_jsonl(tmp_path / "in.jsonl", records))
        return shard, given.task(info, identity_digest(given.identity(info)))

    return make


def test_rows_counts_and_footer(job, tiny, tmp_path):
    records = documents(25)
    shard, task = job([*records, {"id": "n", "text": None}])
    seen: list[ShardProgress] = []
    entry = run_shard(shard, task, tiny, seen.append)
    told = reduce(ShardProgress.plus, seen)
    out = tmp_path / "out"
    found = {table: rows(out, table) for table in ("annotations", "documents", "rejects")}
    texts = {record["id"]: record["text"] for record in records}
    assert len(found["annotations"]) > 20
    for row in found["annotations"]:
        assert texts[row["document_id"]][row["char_start"] : row["char_end"]] == row["text"] == row["text"].strip()
    assert entry.counts["documents"] == 26
    assert (entry.counts["tagged"], entry.counts["empty"], entry.counts["rejected"]) == (20, 5, 1)
    assert entry.counts["entities"] == len(found["annotations"]) == sum(entry.labels.values())
    assert entry.counts["words"] == sum(row["n_words"] for row in found["documents"]) == told.words
    assert (told.documents, told.entities, told.rejects) == (26, entry.counts["entities"], 1)
    assert entry.counts["characters"] == sum(map(len, texts.values()))
    assert entry.reject_codes == {"null_text": 1}
    assert {"read", "split", "pack", "tag", "write"} <= entry.seconds.keys()
    assert shard.name in find_done(str(out)).done
    assert list(read_entries(str(out))) == [entry]

    for table in (ANNOTATIONS, DOCUMENTS, REJECTS):
        path = out / table.name / f"{shard.name}.parquet"
        schema = pq.read_schema(path)
        assert schema.equals(table.schema)
        metadata = schema.metadata
        assert metadata[b"spanmarker.schema_version"] == str(table.version).encode()
        assert metadata[b"spanmarker.model_digest"] == task.model_digest.encode()
        assert metadata[b"spanmarker.decoder"] == b"flat.v1"
        assert metadata[b"spanmarker.run"] == task.job.encode()
        assert metadata[b"spanmarker.shard"] == shard.name.encode()
        assert entry.outputs[table.name].rows == pq.read_metadata(path).num_rows
        assert entry.outputs[table.name].n_bytes == path.stat().st_size


def test_progress_comes_with_every_run_of_a_long_document(job, tiny, monkeypatch):
    monkeypatch.setattr(runner, "pack_runs", partial(pack_runs, max_bytes=20_000))
    monkeypatch.setitem(scorer.BATCH_TOKENS, "cpu", 64)
    records, seen = long_documents(), []
    shard, task = job(records)
    entry = run_shard(shard, task, tiny, seen.append)
    assert sum(step.words > 0 for step in seen) > 3
    assert seen[-1].documents == sum(step.documents for step in seen) == len(records)
    assert sum(step.words for step in seen) == entry.counts["words"]
    assert sum(step.n_bytes for step in seen) >= sum(len(record["text"].encode()) for record in records)
    # Entities are told while the documents are not finished, and corrected at the end.
    before = sum(step.entities for step in seen[:-1])
    assert sum(step.entities > 0 for step in seen[:-1]) > 3
    assert before == pytest.approx(entry.counts["entities"], rel=0.2)
    assert before + seen[-1].entities == entry.counts["entities"]


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "jsonl.gz", "txt", "corrupt.parquet"])
def test_input_that_was_replaced_after_it_was_planned_is_not_committed(kind, job, tiny, tmp_path):
    def write(records):
        path = tmp_path / f"b.{kind}"
        if kind == "parquet":
            write_parquet(path, records, row_group_size=3)
        else:
            write_jsonl(path, records)
            if kind == "jsonl.gz":
                path.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
        return path

    _, task = job([])
    records = documents(8)
    for shard in shards(write(records), max_shard_bytes=100):
        run_shard(shard, task, tiny)
    before = all_rows(tmp_path / "out")
    planned = shards(write(records), max_shard_bytes=100)
    assert len(planned) > 1 or kind in ("jsonl.gz", "txt", "corrupt.parquet")
    (tmp_path / "out" / "manifest" / f"{planned[0].name}.json").unlink()
    write([record | {"text": record["text"].replace("a", "e")} for record in records])
    with pytest.raises(PipelineError, match=rf"input.changed.*{tmp_path}"):
        run_shard(planned[0], task, tiny)
    assert planned[0].name not in find_done(str(tmp_path / "out")).done
    write(records)
    run_shard(planned[0], task, tiny)
    assert_same_rows(all_rows(tmp_path / "out"), before)


def test_documents_come_in_the_order_of_the_source(job, tiny, tmp_path):
    records = documents(10)
    records[3] = {"id": "n", "text": None}
    shard, task = job(records)
    run_shard(shard, task, tiny)
    table = pq.read_table(tmp_path / "out" / "documents" / f"{shard.name}.parquet")
    assert table["document_id"].to_pylist() == [record["id"] for record in records]


def test_same_shard_again_gives_the_same_bytes(job, tiny, tmp_path):
    shard, task = job(documents(10))
    first = run_shard(shard, task, tiny)
    assert run_shard(shard, task, tiny).outputs == first.outputs


def test_shard_and_task_are_small_to_send(job):
    assert len(pickle.dumps(job(documents(3)))) < 10_000


def test_document_that_fails_in_the_model_is_rejected_alone(job, tiny, tmp_path, monkeypatch):
    records = documents(60)
    shard, task = job(records)
    run_shard(shard, task, tiny)
    before = [row for row in rows(tmp_path / "out", "annotations") if row["document_id"] not in ("doc-11", "doc-47")]

    def faulty(samples, *args):
        if {"doc-11", "doc-47"} & set(samples.document_ids.to_pylist()):
            raise ValueError("no such thing")
        return real_tag(samples, *args)

    monkeypatch.setattr(sharding, "tag", faulty)
    entry = run_shard(shard, task, tiny)
    assert codes(tmp_path / "out") == [("doc-11", "tag_failed"), ("doc-47", "tag_failed")]
    reject = rows(tmp_path / "out", "rejects")[0]
    assert reject["message"] == "ValueError: no such thing"
    assert reject["raw"] == records[11]["text"].encode()
    assert_same_annotations(rows(tmp_path / "out", "annotations"), before)
    assert entry.counts["rejected"] == 2


def test_document_that_fails_to_be_encoded_is_rejected_alone(job, tiny, tmp_path, monkeypatch):
    real_encode = sharding.encode

    def faulty(sentences, *args):
        if "doc-7" in sentences["document_id"].to_pylist():
            raise ValueError("no such word")
        return real_encode(sentences, *args)

    monkeypatch.setattr(sharding, "encode", faulty)
    shard, task = job(documents(20))
    entry = run_shard(shard, task, tiny)
    assert codes(tmp_path / "out") == [("doc-7", "pack_failed")]
    assert (entry.counts["tagged"], entry.counts["empty"], entry.counts["rejected"]) == (15, 4, 1)


def test_wrong_offsets_reject_their_document(job, tiny, tmp_path, monkeypatch):
    def shifted(samples, *args):
        found = real_tag(samples, *args)
        starts = [
            start + (row == "doc-1")
            for row, start in zip(found["document_id"].to_pylist(), found["char_start"].to_pylist(), strict=True)
        ]
        place = found.schema.get_field_index("char_start")
        return found.set_column(place, found.schema.field(place), pa.array(starts, pa.int64()))

    monkeypatch.setattr(sharding, "tag", shifted)
    shard, task = job(documents(6))
    run_shard(shard, task, tiny)
    assert codes(tmp_path / "out") == [("doc-1", "bad_offsets")]
    assert "doc-1" not in {row["document_id"] for row in rows(tmp_path / "out", "annotations")}


def test_a_model_that_fails_on_anything_is_no_fault_of_documents(job, tiny, tmp_path, monkeypatch):
    def broken(*args):
        raise RuntimeError("CUDA error: device lost")

    monkeypatch.setattr(sharding, "tag", broken)
    monkeypatch.setattr("pipelines.shards.model.tag", broken)
    shard, task = job(documents(6))
    with pytest.raises(PipelineError, match=r"model.broken.*device lost"):
        run_shard(shard, task, tiny)
    assert [path for path in (tmp_path / "out").rglob("*") if path.suffix == ".parquet" or "scratch" in path.name] == []


def test_a_document_that_memory_does_not_suffice_for_is_rejected_alone(job, tiny, tmp_path, monkeypatch):
    records = [record for record in documents(40) if len(record["text"]) < 100]
    records.insert(11, {"id": "large", "text": "the " * 200})
    shard, task = job(records)
    run_shard(shard, task, tiny)
    before = [row for row in rows(tmp_path / "out", "annotations") if row["document_id"] != "large"]
    sizes = short_of_memory(tiny, monkeypatch, 45)  # a window of the large one has 48 tokens
    entry = run_shard(shard, task, tiny)
    assert max(sizes) > 45
    assert codes(tmp_path / "out") == [("large", "out_of_memory")]
    assert rows(tmp_path / "out", "rejects")[0]["message"].startswith("OutOfMemoryError: CUDA out of memory.")
    assert_same_annotations(rows(tmp_path / "out", "annotations"), before)
    assert entry.work["out_of_memory"] > 0


def long_documents():
    """A document between small ones that is several runs of 20 kB."""
    long = " ".join(f"Barack Obama {number} was in Paris. He flew to New York." for number in range(60))
    return [*documents(3), {"id": "long", "text": long}, *documents(9, "more")]


@pytest.mark.parametrize("policy", ["sentence", "document", "block"])
@pytest.mark.parametrize("max_bytes", [1, 5_000, 20_000])
def test_rows_do_not_depend_on_the_size_of_runs(policy, max_bytes, job, tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(tiny, "config", replace(tiny.config, context=Context(policy)))
    shard, task = job(long_documents())
    entry = run_shard(shard, task, tiny)
    before = all_rows(tmp_path / "out")
    assert sum(row["document_id"] == "long" for row in before["annotations"]) > 60
    monkeypatch.setattr(runner, "pack_runs", partial(pack_runs, max_bytes=max_bytes))
    again = run_shard(shard, task, tiny)
    assert_same_rows(all_rows(tmp_path / "out"), before)
    assert again.counts == entry.counts


@pytest.mark.parametrize("stage", ["pack", "tag"])
@pytest.mark.parametrize("policy", ["sentence", "document", "block"])
def test_a_document_that_fails_in_one_of_its_runs_loses_all_its_rows(stage, policy, job, tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(tiny, "config", replace(tiny.config, context=Context(policy)))
    records = long_documents()
    shard, task = job(records)
    run_shard(shard, task, tiny)
    before = [row for row in rows(tmp_path / "out", "annotations") if row["document_id"] != "long"]
    (long,) = (record["text"] for record in records if record["id"] == "long")
    fiftieth, _ = split_sentences(long)[50]  # no other document is so long
    real_windows, tagged = tiny.packer.windows, []

    def faulty_windows(sentences, plan, *, char_starts, **options):
        if stage == "pack" and fiftieth in char_starts[plan.sentence_start[0] : plan.sentence_end[-1]]:
            raise ValueError("no such sentence")
        return real_windows(sentences, plan, char_starts=char_starts, **options)

    def faulty_tag(samples, *args):
        long = np.flatnonzero(pc.equal(samples.document_ids, "long"))
        of_long = samples.take(long).windows.word_sentence.tolist()
        if stage == "tag" and 50 in of_long:
            raise ValueError("no such sentence")
        tagged.extend(of_long)
        return real_tag(samples, *args)

    monkeypatch.setattr(runner, "pack_runs", partial(pack_runs, max_bytes=20_000))
    monkeypatch.setattr(tiny.packer, "windows", faulty_windows)
    monkeypatch.setattr(sharding, "tag", faulty_tag)
    entry = run_shard(shard, task, tiny)
    assert 0 < max(tagged) < 50  # some runs of it were tagged, none after the fault
    assert codes(tmp_path / "out") == [("long", f"{stage}_failed")]
    assert_same_annotations(rows(tmp_path / "out", "annotations"), before)
    assert entry.counts["documents"] == len(records) == entry.counts["tagged"] + entry.counts["empty"] + 1
    (row,) = (row for row in rows(tmp_path / "out", "documents") if row["document_id"] == "long")
    assert row["status"] == "rejected"
    assert {value for name, value in row.items() if name.startswith("n_") and name != "n_characters"} == {0}

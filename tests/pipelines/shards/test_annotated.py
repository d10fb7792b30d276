"""Annotated shards: what is in them is what training in memory would have made of the same data."""

import gzip
import json
import pickle
import subprocess
import sys
from dataclasses import replace
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.errors import PipelineError
from pipelines.jobs.prepare_training import AnnotatedJob
from pipelines.output.layout import TRAINING_TABLES
from pipelines.output.manifest import identity_digest, make_folders, read_entries
from pipelines.runs.planned_training_data import PlannedTrainingData
from pipelines.training_data.windows import PreparedWindows
from spanmarker_core.data import Sentence, Span, read_annotated
from spanmarker_core.data.summary import summarise
from spanmarker_core.evaluation.scores.reach import largest_flat_subset
from spanmarker_core.text.tag_schemes import spans_to_tags
from spanmarker_core.training.dataset import TrainingWindows
from spanmarker_core.windows.packer import Context
from tests.support.annotated import LIMITS, TEXT, at, corpus, in_memory, record, spans_of, write_sentences
from tests.support.annotated import prepare_annotated as prepare
from tests.support.jobs import write_jsonl


@pytest.mark.parametrize("policy", ["sentence", "document", "block"])
def test_shards_hold_what_memory_would(policy, encoder, tmp_path):
    sentences = corpus()
    write_sentences(tmp_path / "a.jsonl", sentences)
    prepare([tmp_path / "a.jsonl"], tmp_path / "out", encoder, context=policy, max_shard_bytes=3000)
    source, expected = PreparedWindows(str(tmp_path / "out")), in_memory(sentences, encoder, Context(policy))
    assert isinstance(source, TrainingWindows)
    assert len(source.pool_offsets) > 5
    assert spans_of(source) == spans_of(expected)
    assert source.n_candidates.tolist() == expected.n_candidates.tolist()
    assert source.labels == expected.labels
    assert source.summary == expected.summary == summarise(read_annotated(tmp_path / "a.jsonl"))
    everything = np.arange(len(source.n_tokens))
    assert source.names(everything[::-1]) == expected.names(everything[::-1])
    assert source.gold.learned == len(expected.read(0)[1].window)
    counts = dict(source.gold.problems)
    assert min(counts[code] for code in ("too_long", "no_tokens", "too_many_tokens")) > 0
    assert sum(counts.values()) == counts["too_long"] + counts["no_tokens"] + counts["too_many_tokens"]
    assert expected.unreachable == counts["no_tokens"] + counts["too_many_tokens"]


def tagged(sentences) -> list[Sentence]:
    """The same sentences with the entities that tags can hold."""
    return [replace(sentence, entities=largest_flat_subset(sentence.entities)) for sentence in sentences]


def write_conll(path, sentences):
    lines = []
    for document, members in groupby(sentences, key=lambda sentence: sentence.document_id):
        lines += ["-DOCSTART- O", "", f"# id {document}"]
        for sentence in members:
            tags = spans_to_tags(sentence.entities, len(sentence.words), "IOB2")
            lines += [f"{word} {tag}" for word, tag in zip(sentence.words, tags, strict=True)] + [""]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.mark.slow
def test_every_format_gives_the_same(encoder, tmp_path):
    from datasets import Dataset

    sentences = tagged(corpus(6))
    records = [record(sentence) for sentence in sentences]
    inputs = {
        "jsonl": write_sentences(tmp_path / "a.jsonl", sentences),
        "gz": tmp_path / "a.jsonl.gz",
        "parquet": tmp_path / "a.parquet",
        "conll": write_conll(tmp_path / "a.conll", sentences),
        "dataset": tmp_path / "dataset",
    }
    inputs["gz"].write_bytes(gzip.compress(inputs["jsonl"].read_bytes()))
    pq.write_table(pa.Table.from_pylist(records), inputs["parquet"], row_group_size=7)
    Dataset.from_list(records).save_to_disk(str(inputs["dataset"]))
    expected = spans_of(in_memory(sentences, encoder))
    for kind, path in inputs.items():
        scheme = "IOB2" if kind == "conll" else None
        prepare([path], tmp_path / f"{kind}-out", encoder, scheme=scheme, max_shard_bytes=600)
        source = PreparedWindows(str(tmp_path / f"{kind}-out"))
        assert spans_of(source) == expected, kind
        assert source.summary == summarise(sentences)
    for kind in ("jsonl", "parquet"):  # no document is parted
        shards = list((tmp_path / f"{kind}-out" / "documents").glob("*.parquet"))
        parts = [pq.read_table(shard)["document_id"].to_pylist() for shard in shards]
        assert len(parts) > 2
        assert sorted(document for part in parts for document in part) == sorted(f"doc-{n}" for n in range(6))


def test_again_does_what_changed_and_refuses_other_settings(encoder, tmp_path):
    path = write_sentences(tmp_path / "in" / "a.jsonl", corpus(12))
    out, options = tmp_path / "out", {"max_shard_bytes": 1500}
    prepare([path], out, encoder, **options)
    before = PreparedWindows(str(out)).digest
    assert "Nothing to do" in prepare([path], out, encoder, **options)
    next((out / "annotated_samples").glob("*.arrow")).unlink()
    with pytest.raises(PipelineError) as caught:
        PreparedWindows(str(out))
    assert (caught.value.code, caught.value.values["left"]) == ("samples.not_ready", 1)
    assert caught.value.values["total"] > 1
    assert "1 output lost or damaged" in prepare([path], out, encoder, **options)
    assert PreparedWindows(str(out)).digest == before
    with path.open("a") as file:
        file.write(json.dumps(record(Sentence("doc-99", 0, ["paris"], [Span(0, 1, "location")]))) + "\n")
    assert "1 content changed" in prepare([path], out, encoder, **options)
    after = PreparedWindows(str(out))
    assert after.digest != before
    assert after.names(np.array([len(after.n_tokens) - 1])) == ["document doc-99, sentence 0"]
    for changed, line in (
        ({"entity_max_length": 5}, "--entity-max-length: 4 there, 5 here"),
        ({"context": "document", "max_prev_context": 1}, "--max-prev-context: none there, 1 here"),
        ({"language": "de"}, "language: en there, de here"),
    ):
        with pytest.raises(PipelineError, match=rf"output.other_job(.|\n)*{line}"):
            prepare([path], out, encoder, **options, **changed)


def test_a_scheme_is_one_by_all_its_names_and_for_those_files_that_hold_tags(encoder, tmp_path):
    (tmp_path / "a.conll").write_text("paris I-location\n")
    spans = write_sentences(tmp_path / "b.jsonl", corpus(1))
    out = tmp_path / "out"
    assert "2 shards" in prepare([tmp_path / "a.conll", spans], out, encoder, scheme="IOB1")
    assert "Nothing to do" in prepare([tmp_path / "a.conll", spans], out, encoder, scheme="iob")


@pytest.mark.slow
def test_a_worker_that_prepares_has_no_torch_and_no_transformers(encoder, tmp_path):
    path = write_sentences(tmp_path / "a.jsonl", corpus(4))
    prepare([path], tmp_path / "out", encoder)
    program = """
import sys
from dataclasses import replace
from pipelines.processes.thread_limits import prepare_process
from pipelines.shards.worker import attempt, facts
import pickle
task, shards = pickle.load(open(sys.argv[1], "rb"))
prepare_process(1)
facts(task)
for shard in shards:
    outcome = attempt(shard, task)
    print(outcome.entry.counts["windows"])
assert not {"torch", "transformers", "datasets"} & set(sys.modules)
"""
    job = AnnotatedJob(input=[str(path)], output=str(tmp_path / "new"), encoder=str(encoder), **LIMITS)
    work = PlannedTrainingData(job)
    make_folders(job.output, TRAINING_TABLES)
    work.begin(job.output)
    digest = identity_digest(work.identity)
    assert len(pickle.dumps(work.task(digest))) < 10_000
    (tmp_path / "task").write_bytes(pickle.dumps((work.task(digest), list(work.shards(job.output, digest)))))
    run = subprocess.run([sys.executable, "-c", program, str(tmp_path / "task")], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    (entry,) = read_entries(str(tmp_path / "out"))
    assert run.stdout.split() == [str(entry.counts["windows"])]


@pytest.mark.slow
def test_every_engine_writes_the_same(encoder, tmp_path):
    write_sentences(tmp_path / "a.jsonl", corpus(12))
    document = {"id": "d", "text": TEXT, "entities": [at("Barack Obama"), at("Obama", start=20)]}
    write_jsonl(tmp_path / "b.jsonl", [document])
    found = {}
    for engine in ("inline", "local", "dask", "beam"):
        said = prepare([tmp_path / "*.jsonl"], tmp_path / engine, encoder, engine=engine, max_shard_bytes=2000)
        assert "13 documents = 13 prepared" in said
        files = sorted((tmp_path / engine).glob("*/*.arrow")) + sorted((tmp_path / engine).glob("gold_problems/*"))
        found[engine] = {str(file.relative_to(tmp_path / engine)): file.read_bytes() for file in files}
    assert len(found["inline"]) > 6
    assert all(files == found["inline"] for files in found.values())


def test_samples_in_a_store(encoder, root, tmp_path):
    path = write_sentences(tmp_path / "a.jsonl", corpus(3))
    prepare([path], f"{root}/out", encoder, context="document")
    expected = in_memory(corpus(3), encoder, Context("document"))
    assert spans_of(PreparedWindows(f"{root}/out")) == spans_of(expected)

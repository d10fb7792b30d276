"""What an earlier version stored is read as it was meant: see `old_data/README.md`."""

import json
import re
import shutil
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import pipelines.jobs.base
import pipelines.runs.train
from pipelines.engines import ENGINES
from pipelines.errors import PipelineError
from pipelines.jobs.job_file import read_job
from pipelines.jobs.prepare import PrepareJob
from pipelines.jobs.tag import TagJob
from pipelines.output.digest_set import DigestSet
from pipelines.output.manifest import find_done, identity_digest, planned, read_entries
from pipelines.output.pending_shards import find_pending
from pipelines.output.plan_file import plan_identity
from pipelines.report.run_counts import RunCounts
from pipelines.report.run_markdown import report_markdown
from pipelines.report.run_page import report_page
from pipelines.report.run_values import describe_run
from pipelines.runs.prepared_samples import find_prepared_samples
from pipelines.training_data.windows import PreparedWindows
from spanmarker_core import load
from spanmarker_core.bundle.reader import read_info
from spanmarker_core.training import train
from spanmarker_core.training.initialise import encoder_packer
from spanmarker_core.training.settings import TrainingSettings
from tests.pipelines.browse.conftest import site
from tests.support.jobs import all_rows, assert_same_annotations, assert_same_rows, rows, spanmarker, tag
from tests.support.training import Losses

OLD = Path(__file__).parent / "old_data"
BUNDLES = sorted(path.stem for path in (OLD / "bundles").glob("*.json"))
ARCHITECTURES = {"span_marker.v1", "pl_marker.v1", "dspert.v1", "span_ner.v1", "bl_ner.v1", "seq_ner.v1"}
CORPUS = ("lines.jsonl", "rows.parquet", "damaged.parquet", "texts/*.txt")
#: The options of the run that broke off, as in `old_data/write.py`.
TRAINING = (
    "--gate --architecture span_marker --entity-max-length 3 --max-tokens 48 --learning-rate 0.01 --batch-size 10 "
    "--epochs 4 --seed 3 --device cpu"
)
#: What differs between two reports of the same rows.
TIMES = ("seconds_by_stage", "stages", "slowest_shards", "largest_shards", "worker_peak_rss_bytes")


def recorded(name: str):
    return json.loads((OLD / name).read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def one_thread():
    """What is so small is slower on several."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def same_versions(monkeypatch):
    """The versions that decide rows, as they were: another one makes another job, which is not what is tested here."""
    there = recorded("tagged/job.json")
    monkeypatch.setattr(pipelines.jobs.base, "CODE_VERSION", there["code"])
    monkeypatch.setattr(pipelines.jobs.base, "version", lambda name: there["sentences"].removeprefix(f"{name} "))


@pytest.fixture
def inline(monkeypatch):
    monkeypatch.setitem(ENGINES, "inline", "tests.support.inline_engine")


@pytest.fixture
def tagged(tmp_path):
    """A copy of the rows, which may be written to."""
    return Path(shutil.copytree(OLD / "tagged", tmp_path / "tagged"))


def test_there_is_a_bundle_of_every_architecture_that_there_was():
    assert {read_info(OLD / "bundles" / name).config.architecture for name in BUNDLES} == ARCHITECTURES


@pytest.mark.parametrize("name", BUNDLES)
def test_a_bundle_gives_the_same_entities(name):
    assert_same_entities(OLD / "bundles" / name, name, 1e-5)


def assert_same_entities(bundle: Path, name: str, tolerance: float) -> None:
    """A bundle finds what is recorded of one."""
    expected = recorded(f"bundles/{name}.json")
    found = load(bundle).tag_text([each["text"] for each in expected])
    for entities, there in zip(found, (each["entities"] for each in expected), strict=True):
        values = [{**asdict(entity), "score": pytest.approx(entity.score, abs=tolerance)} for entity in entities]
        assert values == there


def test_the_plan_and_the_manifest_of_an_output_are_read():
    output = str(OLD / "tagged")
    shards = list(planned(output))
    assert [shard.format for shard in shards] == ["unreadable", "jsonl", "parquet", "text"]
    names = DigestSet.of(shard.name for shard in shards)
    assert len(names - find_done(output).done) == 0
    entries = {entry.shard: entry for entry in read_entries(output, names)}
    # Two are in the table of entries, and two are files.
    assert (len(entries), len(list((OLD / "tagged" / "manifest").glob("*.json")))) == (4, 2)
    for name, entry in entries.items():
        for table, output in entry.outputs.items():
            assert pq.read_metadata(OLD / "tagged" / table / f"{name}.parquet").num_rows == output.rows


def test_the_status_of_an_output_is_told():
    ended = spanmarker("status", OLD / "tagged")
    assert (ended.returncode, ended.stderr) == (0, "")
    lines = [line.split() for line in ended.stdout.splitlines()]
    counts = recorded("tagged/report.json")["output"]["counts"]
    names = ("documents", "tagged", "empty", "rejected", "unreadable", "entities")
    assert ["4", "shards", *(str(counts[name]) for name in names)] in lines
    assert ended.stdout.endswith("\n4 done, 0 left\n")
    for folder in ("prepared", "annotated"):
        assert " done, 0 left\n" in spanmarker("status", OLD / folder).stdout


def test_the_report_of_an_output_says_what_it_said(tagged):
    values = recorded("tagged/report.json")
    identity = plan_identity(str(tagged / "plan.jsonl"))
    assert identity == values["identity"] == recorded("tagged/job.json")
    work = find_pending(
        str(tagged),
        list(planned(str(tagged))),
        identity,
        identity_digest(identity),
        prune=False,
        force=False,
        before_removal=lambda: None,
    )
    assert (work.total, work.left, work.changed) == (4, 0, False)
    job = read_job(TagJob, None, {"input": ["-"], "output": str(tagged), "model": str(OLD / "bundles" / "trained")})
    found = describe_run(str(tagged), work, RunCounts(), job, identity, "", "")
    assert found["format_version"] == values["format_version"]
    for told in (found["output"], values["output"]):
        for name in TIMES:
            del told[name]
    assert found["output"].pop("sample")["missing"]  # which reports did not have
    assert found["output"] == values["output"]


def test_a_report_is_shown():
    values = recorded("tagged/report.json")
    texts = report_markdown(values).decode(), (OLD / "tagged" / "report.md").read_text(encoding="utf-8")
    new, old = (re.findall(r"[0-9][0-9.,]*", text) for text in texts)
    assert new[-len(old) :] == old  # after the outcome in a sentence
    assert b"damaged.parquet" in report_page(values)


def test_an_output_is_browsed():
    with site(OLD / "tagged") as pages:
        found = {path: pages.page(path, "").decode() for path in ("/", "/documents", "/rejects")}
        assert all(row["label"] in found["/"] for row in rows(OLD / "tagged", "annotations"))
        ids = {row["document_id"] for row in rows(OLD / "tagged", "documents")} - {None}
        assert len(ids) == 10
        assert all(document_id in found["/documents"] for document_id in ids)
        rejects = rows(OLD / "tagged", "rejects")
        assert len(rejects) == 3
        assert all(row["code"] in found["/rejects"] for row in rejects)


def test_rows_of_another_schema_version_are_not_added_to(tagged, same_versions, inline):
    job = {"model": OLD / "bundles" / "trained", "threshold": 0.3}
    with pytest.raises(PipelineError) as caught:
        tag([OLD / "corpus" / "lines.jsonl"], tagged, **job)
    assert caught.value.code == "output.other_job"
    assert caught.value.values["differences"] == (
        "  schema.annotations: 1 there, 2 here\n  schema.documents: 1 there, 2 here\n  schema.rejects: 1 there, 2 here"
    )
    before = rows(tagged, "annotations")
    tag([OLD / "corpus" / name for name in CORPUS], tagged, **job, force=True)
    assert_same_annotations(without_sources(rows(tagged, "annotations"), tagged), before)
    assert {row["n_documents"] for row in rows(tagged, "rejects")} == {0, 1}


def test_samples_are_tagged_to_the_same_rows(tmp_path, same_versions, inline):
    model = OLD / "bundles" / "trained"
    # The files that the documents came from are not there.
    tag([], tmp_path / "out", model, samples=str(OLD / "prepared"), threshold=0.3)
    found, expected = all_rows(tmp_path / "out"), all_rows(OLD / "tagged")
    found["annotations"] = without_sources(found["annotations"], tmp_path / "out")
    n_documents = [row.pop("n_documents") for row in found["rejects"]]
    assert sorted(n_documents) == [0, 1, 1]
    languages = [(row["status"], row.pop("language"), row.pop("language_from")) for row in found["documents"]]
    assert {each[1:] for each in languages if each[0] == "tagged"} == {("en", "option")}
    assert_same_rows(found, expected)


def without_sources(annotations: list[dict], output: Path) -> list[dict]:
    """Annotations as version 1 had them, after checking what version 2 adds."""
    places = {row["document_id"]: (row["source"], row["source_row"]) for row in rows(output, "documents")}
    assert all((row.pop("source"), row.pop("source_row")) == places[row["document_id"]] for row in annotations)
    return annotations


def test_samples_are_of_the_same_job(same_versions):
    model = OLD / "bundles" / "trained"
    job = TagJob(samples=str(OLD / "prepared"), output="-", model=str(model))
    assert find_prepared_samples(job, read_info(model)).job == identity_digest(recorded("prepared/job.json"))
    prepare = PrepareJob(input=["-"], output="-", model=str(model))
    assert prepare.identity(read_info(model)) == recorded("prepared/job.json") | {"schema.inputs": "2"}


def test_annotated_windows_are_the_same():
    expected = recorded("annotated.json")
    windows = PreparedWindows(str(OLD / "annotated"), max_misaligned=1)
    assert (windows.labels, windows.digest) == (expected["labels"], expected["digest"])
    for pool, arrays in enumerate(expected["pools"]):
        seen, gold = windows.read(pool)
        found = {**vars_of(seen), **{f"gold_{name}": values for name, values in vars_of(gold).items()}}
        assert found.keys() == arrays.keys()
        for name, values in arrays.items():
            assert np.array_equal(found[name], values), name
    assert len(windows.pool_offsets) == len(expected["pools"]) + 1


def vars_of(arrays) -> dict[str, np.ndarray]:
    return {name: getattr(arrays, name) for name in getattr(arrays, "_fields", None) or arrays.__dataclass_fields__}


def test_annotated_windows_are_trained_on(tmp_path):
    windows = PreparedWindows(str(OLD / "annotated"), max_misaligned=1)
    packed = windows.packed_as
    limits = {"max_tokens": packed.max_tokens, "entity_max_length": packed.entity_max_length}
    settings = TrainingSettings(**limits, splitter=packed.splitter)
    windows.check(encoder_packer(OLD / "encoder", settings), packed.context)  # packed as it would be today
    data = ["--train", OLD / "annotated", "--dev", OLD / "dev.jsonl", "--max-misaligned", 1]
    ended = spanmarker("train", *data, "--encoder", OLD / "encoder", "--output", tmp_path / "b", "--epochs", 1)
    assert ended.returncode == 0, ended.stderr
    assert load(tmp_path / "b").config.context == packed.context


def test_a_run_that_broke_off_goes_on(tmp_path, monkeypatch):
    shutil.copytree(OLD / "checkpoint", tmp_path / "b.training")
    kept = Losses()
    monkeypatch.setattr(pipelines.runs.train, "train", partial(train, callbacks=[kept]))
    data = ["--train", OLD / "train.jsonl", "--dev", OLD / "dev.jsonl", "--encoder", OLD / "encoder"]
    ended = spanmarker("train", *data, "--output", tmp_path / "b", *TRAINING.split())
    assert ended.returncode == 0, ended.stderr
    assert f"Resuming from {tmp_path / 'b.training' / 'checkpoint-5'}." in ended.stdout
    # Floats are summed in another order on another machine.
    assert kept.losses == pytest.approx(recorded("checkpoint.json")["losses"], abs=1e-3)
    assert_same_entities(tmp_path / "b", "trained", 1e-2)


def test_an_evaluation_is_compared_with_one_of_today(tmp_path):
    # Over the earlier report, which is known for one.
    today = Path(shutil.copytree(OLD / "evaluation", tmp_path / "evaluation"))
    data = ["--data", OLD / "dev.jsonl", "--train", OLD / "train.jsonl"]
    ended = spanmarker("evaluate", "--model", OLD / "bundles" / "trained", *data, "--report", today)
    assert ended.returncode == 0, ended.stderr
    compared = spanmarker("compare", OLD / "evaluation", today, "--report", tmp_path / "comparison")
    assert compared.returncode == 0, compared.stderr
    values = json.loads((tmp_path / "comparison" / "comparison.json").read_text(encoding="utf-8"))
    assert values["all"]["first_f1"] == values["all"]["second_f1"] > 0.5
    assert all(each["won"] == each["lost"] == 0 for each in values["entities"].values())


def test_a_card_is_written_again(tmp_path):
    bundle = shutil.copytree(OLD / "bundles" / "trained", tmp_path / "b")
    ended = spanmarker("card", bundle, "--name", "Another name")
    assert ended.returncode == 0, ended.stderr
    card = (bundle / "README.md").read_text(encoding="utf-8")
    assert "Another name" in card
    assert "| 3 | 15 |" in card  # of the training's log

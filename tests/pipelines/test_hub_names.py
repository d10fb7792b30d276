"""Models and encoders that commands get by their names on the hub; a small hub plays its part."""

import json
from pathlib import Path

import pytest
from huggingface_hub import constants

from pipelines.engines.beam.transforms import SpanMarkerModelHandler, TagSamples
from pipelines.errors import exit_code
from pipelines.experiment.data import write_data
from pipelines.experiment.runs import plan_runs
from pipelines.jobs.experiment import ExperimentJob
from pipelines.jobs.tag import TagJob
from pipelines.shards.model import model_for
from spanmarker_core.bundle.reader import read_info
from spanmarker_core.bundle.repositories import BUNDLE_FILES
from spanmarker_core.card import read_card_facts
from spanmarker_core.errors import CoreError
from tests.services.servers import hub as hubs
from tests.support.annotated import prepare_annotated as prepare
from tests.support.annotated import write_sentences
from tests.support.jobs import all_rows, documents, spanmarker, tag, write_jsonl
from tests.support.training import sentences

GOLDEN = Path(__file__).parents[1] / "parity" / "golden"


def files(folder: Path, names=None) -> dict[str, bytes]:
    found = sorted(path.name for path in folder.iterdir()) if names is None else names
    return {name: (folder / name).read_bytes() for name in found if (folder / name).is_file()}


@pytest.fixture
def published(hub, tiny_bundle) -> str:
    """The commit of the tiny bundle in owner/name."""
    return hub.commit("owner/name", files(tiny_bundle, BUNDLE_FILES))


@pytest.fixture
def data(tmp_path) -> Path:
    return write_sentences(tmp_path / "data.jsonl", sentences()[:20])


def test_a_corpus_is_tagged_with_the_commit_of_a_name(hub, published, tiny_bundle, tmp_path):
    corpus = write_jsonl(tmp_path / "in" / "a.jsonl", documents(6))
    tag([corpus], tmp_path / "folder", tiny_bundle)
    tag([corpus], tmp_path / "out", "owner/name")
    assert all_rows(tmp_path / "out") == all_rows(tmp_path / "folder")
    report = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert f"owner/name@{published}" in json.dumps(report["job"])
    assert f"--model owner/name@{published}" in (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    # The identity is the model's digest, so it is the same job as with the folder, and after a new card.
    hub.commit("owner/name", {"README.md": b"another card"})
    assert "Nothing to do" in tag([corpus], tmp_path / "out", "owner/name")
    hub.commit("owner/name", files(tiny_bundle, BUNDLE_FILES) | {"config.json": b"{}"})
    with pytest.raises(CoreError) as caught:
        tag([corpus], tmp_path / "out", "owner/name")
    assert caught.value.code == "bundle.digest_mismatch"
    assert "Nothing to do" in tag([corpus], tmp_path / "out", f"owner/name@{published}")


def test_workers_get_the_commit_and_download_it(hub, published, tmp_path, tmp_path_factory, monkeypatch):
    job = TagJob(input=["x"], output=str(tmp_path), model="owner/name").pinned()
    task = job.task(read_info(job.model_path), "job")
    assert task.model == f"owner/name@{published}"
    hub.commit("owner/name", {"config.json": b"{}"})
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path_factory.mktemp("worker")))
    model_for.cache_clear()
    assert model_for(task).bundle.digest == task.model_digest
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path_factory.mktemp("offline")))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    model_for.cache_clear()
    with pytest.raises(CoreError) as caught:
        model_for(task)
    assert (caught.value.code, caught.value.values["revision"]) == ("hub.not_cached", published)
    assert (exit_code(caught.value), exit_code(CoreError("hub.not_reached", name="", revision="", reason=""))) == (1, 3)


def test_beam_transforms_name_the_commit(published):
    for handler in (SpanMarkerModelHandler("owner/name"), TagSamples("owner/name").handler):
        assert handler.model == f"owner/name@{published}"
    assert SpanMarkerModelHandler("on/workers/only").model == "on/workers/only"
    assert SpanMarkerModelHandler().load_model().bundle.digest


def test_commands_that_score_a_model_take_names(published, data, tmp_path):
    report = tmp_path / "report"
    for command in ("evaluate", "representations"):
        done = spanmarker(command, "--model", "owner/name", "--data", data, "--report", report)
        assert done.returncode == 0, done.stderr
    for name in ("evaluation", "representations"):
        facts = json.loads((report / f"{name}.json").read_text(encoding="utf-8"))["facts"]
        assert facts["model"] == f"owner/name@{published}"


def test_what_is_neither_path_nor_repository(hub, data):
    done = spanmarker("evaluate", "--model", "modle", "--data", data)
    assert (done.returncode, done.stderr.split("]")[0]) == (1, "spanmarker: [hub.not_found")
    done = spanmarker("evaluate", "--model", "owner/none", "--data", data)
    assert (done.returncode, done.stderr.split("]")[0]) == (1, "spanmarker: [hub.no_repository")


def test_a_bundle_is_pushed_and_used_by_its_name(hub, tiny_bundle, data, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", hubs.TOKEN)
    done = spanmarker("push", tiny_bundle, "owner/new", "--private", "--branch", "trial", "--message", "first")
    assert done.returncode == 0, done.stderr
    (commit,) = (name for name in hub.commits["owner/new"] if len(name) == 40)
    assert done.stdout.splitlines()[0] == f"{hub.url}/owner/new"
    assert f"owner/new@{commit}" in done.stdout
    assert hub.commits["owner/new"]["trial"] == files(tiny_bundle, BUNDLE_FILES)
    assert hub.private == {"owner/new"}
    assert hub.messages == ["first"]
    assert spanmarker("evaluate", "--model", f"owner/new@{commit}", "--data", data).returncode == 0
    refused = spanmarker("push", data, "owner/new")
    assert (refused.returncode, refused.stderr.split("]")[0]) == (1, "spanmarker: [bundle.not_found")


def test_an_encoder_is_trained_by_its_name(hub, encoder, data, tmp_path):
    card = b"---\nlicense: apache-2.0\nlanguage: en\n---\n# Encoder\n"
    commit = hub.commit("owner/encoder", {**files(encoder), "README.md": card, "pytorch_model.bin": b"pickle"})
    given = ["--train", data, "--dev", data, "--test", data, "--epochs", 1, "--max-tokens", 48, "--device", "cpu"]
    for name, output in (("owner/encoder", "named"), (encoder, "folder")):
        done = spanmarker("train", *given, "--encoder", name, "--output", tmp_path / output)
        assert done.returncode == 0, done.stderr
        assert "\ntest F1 " in done.stdout
    assert read_info(tmp_path / "named").digest == read_info(tmp_path / "folder").digest
    facts = read_card_facts(tmp_path / "named")
    names = ("encoder_id", "encoder_revision", "encoder_licence", "bundle_name", "data_name")
    assert [facts[name] for name in names] == ["owner/encoder", commit, "apache-2.0", "named", "data.jsonl"]
    page = (tmp_path / "named" / "README.md").read_text(encoding="utf-8")
    assert "\n# named: span-marker with owner/encoder on data.jsonl\n" in page
    assert f"owner/encoder at commit {commit} (bert, 2 layers, hidden size " in page
    assert not [call for call in hub.asked if call.endswith(".bin")]


def test_training_data_are_prepared_for_a_named_encoder(hub, encoder, data, tmp_path):
    hub.commit("owner/encoder", files(encoder))
    for name, output in (("owner/encoder", "named"), (encoder, "folder")):
        prepare([data], tmp_path / output, name)
    identities = [(tmp_path / output / "job.json").read_bytes() for output in ("named", "folder")]
    assert identities[0] == identities[1]
    assert not [call for call in hub.asked if call.endswith(".safetensors")]  # tokenizer and config are enough


def test_runs_of_an_experiment_share_a_named_encoder(hub, encoder, tmp_path):
    commit = hub.commit("owner/encoder", files(encoder))
    values = {"output": str(tmp_path / "out"), "data": str(tmp_path), "encoder": "owner/encoder", "seeds": [1]}
    command = "{python} other.py {encoder} {train} {test} {output}"
    job = ExperimentJob(**values, datasets={"a": {}}, configurations={"ours": {}, "theirs": {"command": command}})
    for part in ("train", "dev", "test"):
        write_sentences(tmp_path / "a" / f"{part}.jsonl", sentences()[:4])
    ours, theirs = plan_runs(job, {"a": write_data(job, "a", tmp_path / "out" / "data" / "a")})
    assert ours.job["encoder"] == f"owner/encoder@{commit}"
    assert (Path(theirs.command[2]) / "config.json").is_file()
    assert ours.identity["encoder"] == theirs.identity["encoder"]


def test_a_checkpoint_is_imported_by_its_name(hub, tmp_path):
    card = b"---\nlicense: cc-by-4.0\nbase_model: owner/roberta\ndatasets: [a/b]\nlanguage: [en, de]\n---\n"
    commit = hub.commit("owner/checkpoint", {**files(GOLDEN / "roberta"), "README.md": card})
    for source, output in (("owner/checkpoint", "named"), (GOLDEN / "roberta", "folder")):
        done = spanmarker("import-checkpoint", source, tmp_path / output)
        assert done.returncode == 0, done.stderr
    assert read_info(tmp_path / "named").digest == read_info(tmp_path / "folder").digest
    assert read_card_facts(tmp_path / "named") == {
        "bundle_name": "named",
        "origin": f"owner/checkpoint@{commit}",
        "licence_id": "cc-by-4.0",
        "language": "en,de",
        "dataset_id": "a/b",
        "encoder_id": "owner/roberta",
    }


def test_a_gate_is_fitted_to_a_named_model(published, tmp_path):
    corpus = write_jsonl(tmp_path / "a.jsonl", documents(1))
    done = spanmarker("gate", "fit", "--model", "owner/name", "--corpus", corpus, "--output", tmp_path / "out")
    assert done.stderr.split("]")[0] == "spanmarker: [gate.corpus_too_small"  # after the model was loaded

"""`spanmarker experiment` as a user runs it: with another system as a command, and with models of our own."""

import io
import json
import os
import signal
from pathlib import Path

import pytest
from rich.console import Console
from transformers import PreTrainedTokenizerFast

from pipelines.errors import PipelineError, exit_code
from pipelines.experiment.data import write_data
from pipelines.experiment.run import run_experiment
from pipelines.experiment.runs import digest_of
from pipelines.jobs.experiment import ExperimentJob
from pipelines.jobs.job_file import read_job
from spanmarker_core import load
from spanmarker_core.data import read_annotated
from spanmarker_core.evaluation.evaluate import evaluate
from tests.support.processes import finish, start, wait_for
from tests.support.tiny import tiny_encoder, tiny_tokenizer

#: Finds the words that training has seen as entities, but for every SEED-th; leaves figures.
SYSTEM = """
import json, sys
train, test, output, seed, epochs = sys.argv[1:]
read = lambda path: [json.loads(line) for line in open(path)]
known = {r["tokens"][e["start"]]: e["label"] for r in read(train) for e in r["entities"]}
kept = [word for place, word in enumerate(sorted(known)) if place % (int(seed) + 1)]
with open(output + "/predictions.jsonl", "w") as out:
    for r in read(test):
        found = [{"start": i, "end": i + 1, "label": known[w]} for i, w in enumerate(r["tokens"]) if w in kept]
        ids = {"document_id": r["document_id"], "sentence_id": r["sentence_id"]}
        out.write(json.dumps({**ids, "entities": found}) + "\\n")
json.dump({"steps": int(epochs)}, open(output + "/figures.json", "w"))
open(output + "/starts", "a").write("x")
"""
COMMAND = "{python} system.py {train} {test} {output} {seed} {epochs}"
PARTS = ("train", "dev", "test")
CITIES = ["paris", "london", "york", "zürich"]


def write_sentences(path: Path, count: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = []
    for number in range(count):
        city = CITIES[number * number % 4]
        entities = [{"start": 2, "end": 3, "label": "location"}]
        words = ["he", "in", city, "on"]
        ids = {"document_id": f"d{number // 3}", "sentence_id": number % 3}
        lines.append(json.dumps({**ids, "tokens": words, "entities": entities}) + "\n")
    path.write_text("".join(lines), encoding="utf-8")


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    digest_of.cache_clear()
    for part, count in (("train", 30), ("dev", 6), ("test", 12)):
        write_sentences(tmp_path / "data" / "cities" / f"{part}.jsonl", count)
    (tmp_path / "encoder").mkdir()
    (tmp_path / "encoder" / "config.json").write_text("{}")
    (tmp_path / "system.py").write_text(SYSTEM)
    write_job(tmp_path)
    return tmp_path


def write_job(folder: Path, more: str = "") -> None:
    (folder / "job.toml").write_text(
        'output = "out"\nencoder = "encoder"\nseeds = [1, 2]\nsizes = [6, "all"]\ncompare = [["one", "two"]]\n'
        "resamples = 200\n[datasets.cities]\n"
        f'[configurations.one]\ncommand = "{COMMAND}"\nsettings = {{ epochs = 2 }}\n'
        f'[configurations.two]\ncommand = "{COMMAND}"\n{more}'
    )


def experiment(folder, **options) -> str:
    """Run the job in this process (its runs have their own) and return what it printed."""
    console = Console(file=io.StringIO(), width=200)
    run_experiment(read_job(ExperimentJob, str(folder / "job.toml"), options), console)
    return console.file.getvalue()


def test_a_command_is_run_scored_compared_skipped_and_refused_when_it_changed(folder):
    experiment(folder, workers=2)
    results = json.loads((folder / "out" / "results.json").read_text())
    assert (results["runs"], results["runs_done"]) == (8, 8)
    groups = {(group["size"], group["configuration"]): group for group in results["groups"]}
    whole = groups["all", "one"]
    # Seed 1 drops the words at even places of those it knows, seed 2 every third.
    cities = {part: [each["tokens"][2] for each in read(folder / f"data/cities/{part}.jsonl")] for part in PARTS}
    for seed in (1, 2):
        kept = [name for place, name in enumerate(sorted(set(cities["train"]))) if place % (seed + 1)]
        recall = sum(city in kept for city in cities["test"]) / len(cities["test"])
        assert whole["test_recall"]["seeds"][str(seed)] == pytest.approx(recall)
    assert whole["steps"]["mean"] == 2
    assert groups["all", "two"]["steps"]["mean"] == 3  # the default of `spanmarker train`
    assert [each["over_documents"]["difference"] for each in results["comparisons"]] == [0.0, 0.0]
    assert "| 30 | one | **" in (folder / "out" / "results.md").read_text()

    run = folder / "out/runs/cities/one/6/1"
    assert "8 done before, 0 to do" in experiment(folder)
    assert (run / "starts").read_text() == "x"

    (folder / "system.py").write_text(SYSTEM + "\n# changed\n")
    digest_of.cache_clear()
    with pytest.raises(PipelineError) as caught:
        experiment(folder)
    assert (caught.value.code, caught.value.values["count"]) == ("experiment.changed", 8)
    assert "cities/one/6/1: file system.py" in caught.value.values["runs"]
    experiment(folder, redo=["cities/"], only=["cities/one/6/1"])
    assert (run / "starts").read_text() == "x"  # the folder was made anew
    with pytest.raises(PipelineError, match=r"experiment.no_such_run"):
        experiment(folder, only=["towns/"])


def test_what_a_command_writes_is_read_strictly_and_others_are_done(folder):
    (folder / "system.py").write_text(SYSTEM.replace('r["sentence_id"]}', 'int(seed) - 1 + r["sentence_id"]}'))
    with pytest.raises(
        PipelineError, match=r"runs_failed\] 1 of 2(.|\n)*one/6/2: \[experiment.bad_pred.*, line 1"
    ) as caught:
        experiment(folder, only=["cities/one/6"])
    assert exit_code(caught.value) == 3
    assert (folder / "out/runs/cities/one/6/1/scores.json").exists()
    assert not (folder / "out/runs/cities/one/6/2/scores.json").exists()


@pytest.mark.services
def test_an_ended_experiment_leaves_no_process(folder):
    (folder / "system.py").write_text(
        "import os, sys, time\nopen(sys.argv[3] + '/pid', 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    )
    process, note = start("experiment", "job.toml", cwd=folder), folder / "out/runs/cities/one/6/1/pid"
    wait_for(lambda: note.exists() and note.read_text(), process=process)
    process.send_signal(signal.SIGTERM)
    finish(process, code=143)
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


@pytest.mark.slow
def test_models_of_our_own_go_on_where_they_broke_off_and_their_cards_tell_every_seed(folder):
    tokenizer = tiny_tokenizer("bert")
    tiny_encoder("bert", tokenizer.get_vocab_size()).save_pretrained(folder / "encoder")
    special = {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "cls", "sep", "pad")}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder / "encoder")
    (folder / "job.toml").write_text(
        'output = "out"\nencoder = "encoder"\nseeds = [1, 2]\nkeep_models = true\n[datasets.cities]\n'
        "[configurations.small]\n"
        "settings = { epochs = 3, learning_rate = 1e-2, batch_size = 4, max_tokens = 48, entity_max_length = 1 }\n"
    )
    experiment(folder)
    results = json.loads((folder / "out/results.json").read_text())
    f1 = results["groups"][0]["test_f1"]
    assert f1["min"] > 0
    run = folder / "out/runs/cities/small/all/1"
    scored = evaluate(load(run / "bundle"), read_annotated(folder / "data/cities/test.jsonl"))
    assert f1["seeds"]["1"] == scored.micro.f1
    card = (run / "bundle/README.md").read_text()
    assert "this model used seed 1" in card
    assert "| 2 | " in card.split("Several Seeds")[1]

    trained = (run / "bundle/model.safetensors").stat().st_mtime_ns
    for name in ("scores.json", "predictions.jsonl", "figures.json"):
        (run / name).unlink()
    experiment(folder, keep_models=False)
    assert json.loads((folder / "out/results.json").read_text())["groups"][0]["test_f1"] == f1
    assert not (run / "bundle/model.safetensors").exists()
    other = folder / "out/runs/cities/small/all/2/bundle/model.safetensors"
    assert other.exists()
    assert trained < (run / "training.json").stat().st_mtime_ns < (run / "scores.json").stat().st_mtime_ns


def test_every_error_of_a_job_is_told_at_once(tmp_path):
    (tmp_path / "job.toml").write_text(
        'output = "out"\nencoder = "e"\nseeds = [1, 1]\nspeed = 3\n[datasets."a/b"]\n[configurations.one]\n'
    )
    with pytest.raises(PipelineError) as caught:
        read_job(ExperimentJob, str(tmp_path / "job.toml"), {})
    for part in ("seeds: 1 occurs twice", "line 4: unknown key speed", "'a/b': names become folder names"):
        assert part in str(caught.value)
    (tmp_path / "job.toml").write_text(
        'output = "out"\nencoder = "e"\nseeds = [1]\ncompare = [["one", "three"]]\nsettings = { seed = 1 }\n'
        '[datasets.a]\n[configurations.one]\n[configurations.two]\ncommand = "run {train} {tset}"\n'
    )
    with pytest.raises(PipelineError) as caught:
        read_job(ExperimentJob, str(tmp_path / "job.toml"), {})
    for part in ("'three' is not one of", "settings: seed is set", "{tset} is not one of", "does not use {test}"):
        assert part in str(caught.value)
    (tmp_path / "job.toml").write_text(
        'output = "out"\nencoder = "e"\nseeds = [1]\n[datasets.a]\nsettings = { epochs = 0 }\n'
        "[configurations.one]\nsettings = { gate_share = 0.5 }\n"
    )
    with pytest.raises(PipelineError, match=r"one on a: epochs(.|\n)*"):
        read_job(ExperimentJob, str(tmp_path / "job.toml"), {})


@pytest.mark.parametrize(
    ("over", "options"),
    [
        ({"options": {"output": "tags"}}, {"tags": "crf", "width_size": 10, "output": "tags"}),
        ({"options": {"tags": "softmax"}, "architecture": "bl_ner.v1"}, {"tags": "softmax", "width_size": 10}),
        ({"architecture": "dspert"}, {}),
        ({"architecture": "dspert", "options": {"lstm": 0}}, {"lstm": 0}),
        ({}, {"tags": "crf", "width_size": 10}),
    ],
)
def test_options_are_laid_over_those_of_the_same_architecture_by_name(over, options):
    settings = {"architecture": "bl_ner", "options": {"tags": "crf"}}
    job = ExperimentJob(
        output="o",
        encoder="e",
        seeds=[1],
        settings=settings,
        datasets={"a": {"settings": {"options": {"width_size": 10}}}},
        configurations={"one": {"settings": over}},
    )
    assert job.train_job("a", "one").options == options


def test_a_size_holds_the_smaller_ones_and_documents_stay_whole_and_in_order(folder):
    values = {"output": str(folder), "data": str(folder / "data"), "encoder": "e", "seeds": [1]}
    job = ExperimentJob(
        **values, sizes=[7, 13, "all"], datasets={"cities": {"dev_sentences": 2}}, configurations={"one": {}}
    )
    files = write_data(job, "cities", folder / "written")
    read = {size: each.train.read_text().splitlines() for size, each in files.items()}
    assert [len(lines) for lines in read.values()] == [7, 13, 30]
    assert read["13"][:7] == read["7"]
    assert set(read["13"]) < set(read["all"])
    ids = [(record["document_id"], record["sentence_id"]) for record in map(json.loads, read["13"])]
    assert [number for _, number in ids] == [0, 1, 2] * 4 + [0]
    assert [name for name, _ in ids] != sorted(name for name, _ in ids), "nothing was shuffled"
    assert files["7"].sentences == {"train": 7, "dev": 2, "test": 12}
    other = ExperimentJob(**{**job.model_dump(), "shuffle_seed": 1})
    assert write_data(other, "cities", folder / "other")["7"].digests["train"] != files["7"].digests["train"]

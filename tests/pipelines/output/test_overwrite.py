"""No option that writes harms an input, or a file that this program did not write."""

import json
import os
import shutil
from functools import partial
from pathlib import Path

import fsspec
import pytest
from datasets import Dataset
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.errors import PipelineError
from pipelines.experiment.foreign import refuse_foreign
from pipelines.jobs.experiment import ExperimentJob
from pipelines.output.overwrite import begins, refuse_overwrite
from spanmarker_core.errors import CodedError
from spanmarker_core.training.checkpoints import TrainingFolder
from tests.support.jobs import documents, prepare, tag, write_jsonl

GOLDEN = Path(__file__).parents[2] / "parity" / "golden"
SENTENCE = {
    "document_id": "d",
    "sentence_id": 0,
    "tokens": ["Obama", "flew", "to", "Paris"],
    "entities": [{"start": 3, "end": 4, "label": "location"}],
}
FOREIGN = b"somebody's own\n"


def contents(folder: Path) -> dict[str, bytes]:
    """Everything in a folder, links as what they lead to."""
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def run(*arguments) -> None:
    CliRunner().invoke(app, [str(each) for each in arguments], catch_exceptions=False)


def refused(folder: Path, call, option: str) -> str:
    """Return the code with which a call is refused; nothing in the folder is touched by it."""
    before = contents(folder)
    with pytest.raises(CodedError) as caught:
        call()
    assert contents(folder) == before
    if caught.value.code.startswith(("output.is_input", "output.would")):
        assert caught.value.values["option"] == option
    return caught.value.code


@pytest.fixture
def corpus(tmp_path):
    write_jsonl(tmp_path / "in" / "a.jsonl", documents(3))
    (tmp_path / "in" / "empty.jsonl").touch()
    (tmp_path / "to-in").symlink_to("in")
    (tmp_path / "symbolic").symlink_to("in/a.jsonl")
    os.link(tmp_path / "in" / "a.jsonl", tmp_path / "hard")
    os.link(tmp_path / "in" / "empty.jsonl", tmp_path / "hard-to-empty")
    (tmp_path / "foreign").write_bytes(FOREIGN)
    return tmp_path


PATTERNS = ["in/*.jsonl", "in/a.jsonl", "to-in/*", "**/a.jsonl", "x/../in/a*"]
INPUTS = ["in/a.jsonl", "in/../in/a.jsonl", "to-in/a.jsonl", "symbolic", "hard", "file://{tmp}/in/a.jsonl"]


@pytest.mark.parametrize("option", ["metrics", "log_json"])
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("path", INPUTS)
def test_an_input_is_not_written_to(corpus, tiny_bundle, monkeypatch, option, pattern, path):
    (corpus / "x").mkdir()
    monkeypatch.chdir(corpus)
    given = {option: path.replace("{tmp}", str(corpus))}
    call = partial(tag, [pattern], "out", tiny_bundle, **given)
    assert refused(corpus, call, f"--{option.replace('_', '-')}") == "output.is_input"


@pytest.mark.parametrize("option", ["metrics", "log_json"])
@pytest.mark.parametrize(
    ("pattern", "path", "code"),
    [
        ("in/*", "in/new", "output.is_input"),
        ("in/*", "to-in/new", "output.is_input"),
        ("to-in/*", "in/new", "output.is_input"),
        ("in/**/*.jsonl", "in/new/b/c.jsonl", "output.is_input"),
        ("**/n*", "new", "output.is_input"),
        ("in/*.jsonl", "in/empty.jsonl", "output.is_input"),
        ("in/*.jsonl", "hard-to-empty", "output.is_input"),
        ("in/*.jsonl", "foreign", "output.would_replace"),
        ("in/*.jsonl", "out/job.json", "output.would_replace"),
    ],
)
def test_what_matches_or_is_foreign_is_not_written_to(corpus, tiny_bundle, monkeypatch, option, pattern, path, code):
    monkeypatch.chdir(corpus)
    call = partial(tag, [pattern], "out", tiny_bundle, **{option: path})
    assert refused(corpus, call, f"--{option.replace('_', '-')}") == code


def test_files_of_the_model_and_of_samples_are_not_written_to(corpus, tiny_bundle, monkeypatch):
    monkeypatch.chdir(corpus)
    prepare(["in/a.jsonl"], "samples", tiny_bundle)
    assert (corpus / "samples" / "report.json").exists()
    of_samples = ["tag", "--samples", "samples", "--model", tiny_bundle, "--output"]
    for arguments, option in [
        ([*of_samples, "samples", "--force"], "--output"),
        ([*of_samples, "samples/x"], "--output"),
        ([*of_samples, "out", "--metrics", "samples/metrics"], "--metrics"),
        ([*of_samples, "out", "--log-json", "samples/samples/log"], "--log-json"),
        (["tag", "--input", "in/a*", "--model", tiny_bundle, "--output", tiny_bundle], "--output"),
        (["tag", "--input", "in/a*", "--model", tiny_bundle, "--output", tiny_bundle / "out"], "--output"),
        (["tag", "--input", "**/*.md", "--model", tiny_bundle, "--output", "out"], "--output"),
        (["prepare", "--input", "**/*.parquet", "--model", tiny_bundle, "--output", "out"], "--output"),
    ]:
        assert refused(corpus, partial(run, *arguments), option) == "output.is_input"
    assert contents(tiny_bundle).keys() == {str(tiny_bundle / name) for name in os.listdir(tiny_bundle)}


def test_folders_of_annotated_data_are_not_written_to(corpus, monkeypatch):
    monkeypatch.chdir(corpus)
    Dataset.from_list([SENTENCE]).save_to_disk("saved/train")
    (corpus / "encoder").mkdir()
    call = partial(run, "prepare", "--annotated", "--encoder", "encoder", "--output", "out", "--input")
    for pattern, option, path in [
        ("saved/*", "--metrics", "saved/train/new"),
        ("saved/train", "--log-json", "saved/train/new"),
        ("saved/train", "--metrics", "encoder/new"),
    ]:
        assert refused(corpus, partial(call, pattern, option, path), option) == "output.is_input"


def test_earlier_metrics_and_logs_are_written_again(corpus, tiny_bundle):
    metrics, log = corpus / "run.prom", corpus / "run.log"
    metrics.touch()  # as mktemp leaves it
    log.touch()
    for number in range(1, 4):
        tag([corpus / "in" / "a.jsonl"], corpus / "out", tiny_bundle, metrics=str(metrics), log_json=str(log))
        assert log.read_text().count('"run.finished"') == number
        assert metrics.read_bytes().startswith(b"# HELP spanmarker_")
    call = partial(tag, [corpus / "in" / "a.jsonl"], corpus / "out", tiny_bundle)
    assert refused(corpus, partial(call, metrics=str(log)), "--metrics") == "output.would_replace"
    assert refused(corpus, partial(call, log_json=str(metrics)), "--log-json") == "output.would_replace"
    same = str(corpus / "new")
    assert refused(corpus, partial(call, metrics=same, log_json=same), "--log-json") == "output.would_replace"


def test_a_device_takes_a_log_and_is_not_replaced(corpus, tiny_bundle):
    call = partial(tag, [corpus / "in" / "a.jsonl"], corpus / "out", tiny_bundle)
    call(log_json=os.devnull)
    assert refused(corpus, partial(call, metrics=os.devnull), "--metrics") == "output.would_replace"
    assert not os.path.isfile(os.devnull)


def test_stores_are_guarded_too(tmp_path, tiny_bundle):
    base = f"memory://guard{tmp_path}"
    memory = fsspec.filesystem("memory")
    memory.pipe(f"{base}/in/a.jsonl", b'{"id": "a", "text": "Ann"}\n')
    memory.pipe(f"{base}/foreign", FOREIGN)
    call = partial(tag, [f"{base}/in/*"], tmp_path / "out", tiny_bundle)
    for path, code in [
        (f"{base}/in/a.jsonl", "output.is_input"),
        (f"{base}/in/new", "output.is_input"),
        (f"{base}/foreign", "output.would_replace"),
    ]:
        before = {name: memory.cat_file(name) for name in memory.find(base)}
        assert refused(tmp_path, partial(call, metrics=path), "--metrics") == code
        assert {name: memory.cat_file(name) for name in memory.find(base)} == before
    for _ in range(2):
        call(metrics=f"{base}/metrics")
    assert memory.cat_file(f"{base}/metrics").startswith(b"# HELP spanmarker_")


REPORTS = {
    "evaluate": ("evaluation", ["--model", "model", "--data", "data.jsonl"]),
    "representations": ("representations", ["--model", "model", "--data", "data.jsonl", "--spans", "3"]),
    "compare": ("comparison", ["first", "second"]),
}


@pytest.fixture
def place(tmp_path, tiny_bundle, monkeypatch):
    """A folder with a model, data and two evaluations, in which commands are run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").symlink_to(tiny_bundle)
    for name in ("data.jsonl", "train.jsonl"):
        write_jsonl(tmp_path / name, [SENTENCE])
    return tmp_path


def evaluated(place):
    for name in ("first", "second"):
        run("evaluate", "--model", "model", "--data", "data.jsonl", "--report", place / name)


@pytest.mark.parametrize("command", REPORTS)
def test_reports_replace_reports_and_nothing_else(place, command):
    evaluated(place)
    name, arguments = REPORTS[command]
    call = partial(run, command, *arguments, "--report")
    for _ in range(2):
        call(place / "report")
    files = [path.name for path in (place / "report").iterdir()]
    assert {f"{name}.html", f"{name}.md", f"{name}.json"} <= set(files)
    for file in files:
        for content in (FOREIGN, b'{"format_version": 1}', b"<!doctype html>\n<title>Mine</title>"):
            folder = place / f"{file}{len(content)}"
            folder.mkdir()
            (folder / file).write_bytes(content)
            assert refused(place, partial(call, folder), "--report") == "output.would_replace"
    for folder in ["model", "model/report", "first"]:
        if (command == "compare") == (folder == "first"):
            assert refused(place, partial(call, folder), "--report") == "output.is_input"


@pytest.mark.parametrize("command", REPORTS)
def test_a_report_is_not_put_among_other_files(place, command):
    evaluated(place)
    write_jsonl(place / "lake" / "part-1.jsonl", [SENTENCE])
    call = partial(run, command, *REPORTS[command][1], "--report")
    assert refused(place, partial(call, place / "lake"), "--report") == "output.not_for_reports"
    (place / "reports").mkdir()
    for _ in range(2):
        for each, (_, arguments) in REPORTS.items():
            run(each, *arguments, "--report", place / "reports")


def test_a_report_replaces_no_data(place):
    write_jsonl(place / "here" / "evaluation.json", [SENTENCE])
    os.symlink("evaluation.json", place / "here" / "data.jsonl")
    data = ["--data", "here/data.jsonl", "--report", "here"]
    assert refused(place, partial(run, "evaluate", "--model", "model", *data), "--report") == "output.is_input"
    more = ["--data", "data.jsonl", "--train", "here/data.jsonl", "--report", "here"]
    assert refused(place, partial(run, "evaluate", "--model", "model", *more), "--report") == "output.is_input"


def test_new_bundles_are_not_written_into_inputs(place):
    Dataset.from_list([SENTENCE]).save_to_disk("saved")
    golden = GOLDEN / "roberta"
    train = ["train", "--train", "saved", "--dev", "data.jsonl", "--encoder", golden, "--device", "cpu", "--output"]
    fit = ["gate", "fit", "--model", "model", "--corpus", "corpus/**", "--annotated", "saved", "--output"]
    for arguments, option in [
        ([*train, "saved/bundle"], "--output"),
        ([*train, golden / "bundle"], "--output"),
        ([*train, "data.jsonl/bundle"], "--output"),
        ([*fit, "saved/bundle"], "--output"),
        ([*fit, "corpus/bundle"], "--output"),
        (["import-checkpoint", golden, golden / "bundle"], "OUTPUT"),
    ]:
        assert refused(place, partial(run, *arguments), option) == "output.is_input"
    assert not (golden / "bundle").exists()


def test_checkpoints_take_no_foreign_folder(place):
    folder = place / "bundle.training"
    folder.mkdir()
    train = ["train", "--dev", "data.jsonl", "--encoder", GOLDEN / "roberta", "--output", "bundle", "--train"]
    write_jsonl(folder / "a.jsonl", [SENTENCE])
    assert refused(place, partial(run, *train, "bundle.training/a.jsonl"), "--output") == "output.is_input"
    assert refused(place, partial(run, *train, "train.jsonl"), "--output") == "output.would_replace"
    (folder / "run.json").write_bytes(FOREIGN)
    assert refused(place, partial(run, *train, "train.jsonl"), "--output") == "output.would_replace"


def test_checkpoints_of_a_training_are_no_foreign_ones(tmp_path):
    for identity in ({"dev data": "x", "settings": {}},) * 2:
        with TrainingFolder(tmp_path / "bundle") as folder:
            assert not folder.is_foreign()
            folder.open(identity)
            assert not folder.is_foreign()
    (folder.path / "run.json").unlink()
    assert not folder.is_foreign()  # It holds the lock alone.


def test_a_card_is_rewritten_and_another_file_is_not(place, tiny_bundle):
    bundle = place / "bundle"
    shutil.copytree(tiny_bundle, bundle)
    for number in range(2):
        run("card", "bundle", "--name", f"name {number}")
        assert f"name {number}" in (bundle / "README.md").read_text()
    (bundle / "README.md").write_bytes(FOREIGN)
    assert refused(place, partial(run, "card", "bundle", "--name", "x"), "BUNDLE") == "output.would_replace"
    call = partial(run, "card", "bundle", "--train", "bundle")
    assert refused(place, call, "BUNDLE") == "output.is_input"


def experiment(place, **values) -> ExperimentJob:
    values = {"output": "out", "data": "data", "encoder": "encoder", "seeds": [1], **values}
    return ExperimentJob(**values, datasets={"one": {}}, configurations={"ours": {}})


@pytest.mark.parametrize(
    ("file", "output", "code"),
    [
        ("data/one/dev.jsonl", ".", "output.is_input"),
        ("data/one/train.jsonl", ".", "output.is_input"),
        ("out/data/one/train-all.jsonl", "out", "output.would_replace"),
        ("out/results.json", "out", "output.would_replace"),
        ("out/results.md", "out", "output.would_replace"),
        ("out/runs/one/ours/all/1/notes.txt", "out", "output.would_replace"),
        ("out/runs/one/ours/all/2/notes.txt", "out", None),
        ("out/notes.txt", "out", None),
        ("encoder/config.json", "encoder/out", "output.is_input"),
    ],
)
def test_an_experiment_writes_over_its_own_files_only(place, file, output, code):
    (place / file).parent.mkdir(parents=True)
    (place / file).write_bytes(FOREIGN)
    job = experiment(place, output=output)
    call = partial(refuse_foreign, job, Path(output).absolute())
    if code is None:
        call()
    else:
        assert refused(place, call, "--output") == code


def test_an_experiment_goes_on_over_its_own_files(place):
    for file in (".lock", "data/one/dev.jsonl", "data/one/train-all.jsonl", "runs/one/ours/all/1/run.json"):
        (place / "out" / file).parent.mkdir(parents=True, exist_ok=True)
        (place / "out" / file).write_text("{}")
    (place / "out" / "results.json").write_text(json.dumps({"format_version": 1, "runs_done": 0}, indent=2))
    (place / "out" / "results.md").write_text("# Results\n")
    refuse_foreign(experiment(place), place / "out")


def test_what_can_not_be_read_is_not_replaced(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"x")

    def denied(url):
        raise PermissionError(13, "Permission denied", url)

    monkeypatch.setattr("pipelines.output.overwrite.open_input", denied)
    with pytest.raises(PipelineError) as caught:
        refuse_overwrite("--metrics", str(tmp_path / "a"), ours=begins(b"x"))
    assert caught.value.code == "output.not_readable"


def test_an_input_that_can_not_be_used_is_left_to_whoever_reads_it(tmp_path):
    refuse_overwrite("--metrics", str(tmp_path / "new"), ["nosuch://x/*", "**.txt", "\0", ""])

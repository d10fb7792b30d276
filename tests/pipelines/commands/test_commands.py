"""`train`, `evaluate` and `import-checkpoint` as a user runs them."""

import io
import json
import shutil
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from pipelines.commands.scores import print_scores
from pipelines.report.printed import print_markdown
from spanmarker_core.bundle.files import POINTER_PROBLEM
from spanmarker_core.errors import CoreWarning
from spanmarker_core.evaluation.scores.metrics import SpanScorer
from spanmarker_core.text.tag_schemes import Span
from tests.support.jobs import spanmarker

GOLDEN = Path(__file__).parents[2] / "parity" / "golden"
SENTENCE = {
    "document_id": "d",
    "sentence_id": 0,
    "tokens": ["Obama", "flew", "to", "Paris"],
    "entities": [{"start": 3, "end": 4, "label": "location"}],
}


@pytest.fixture
def data(tmp_path) -> Path:
    path = tmp_path / "data.jsonl"
    path.write_text(json.dumps(SENTENCE) + "\n", encoding="utf-8")
    return path


def test_evaluate_writes_its_report(tiny_bundle, data, tmp_path):
    for _ in range(2):
        done = spanmarker("evaluate", "--model", tiny_bundle, "--data", data, "--report", tmp_path / "new" / "report")
        assert done.returncode == 0, done.stderr
        values = json.loads((tmp_path / "new" / "report" / "evaluation.json").read_text(encoding="utf-8"))
        page = (tmp_path / "new" / "report" / "evaluation.md").read_text(encoding="utf-8")
        assert values["micro"]["support"] == 1
        assert page.startswith("# Evaluation\n")


def with_labels(path, *labels):
    sentences = [
        SENTENCE | {"document_id": label, "entities": [{"start": 3, "end": 4, "label": label}]} for label in labels
    ]
    path.write_text("".join(json.dumps(sentence) + "\n" for sentence in sentences))
    return path


def test_evaluate_names_the_labels_that_the_model_lacks(tiny_bundle, tmp_path):
    data = with_labels(tmp_path / "data.jsonl", "location", "Location", "VERB", "LOC")
    for options in ((), ("--report", tmp_path / "report")):
        with pytest.warns(CoreWarning) as caught:
            done = spanmarker("evaluate", "--model", tiny_bundle, "--data", data, *options)
        assert done.returncode == 0, done.stderr
        (warning,) = (each.message for each in caught if issubclass(each.category, CoreWarning))
        assert warning.code == "data.unknown_labels"
        values = {name: warning.values[name] for name in ("labels", "count", "total", "known")}
        assert values == {"labels": "LOC, Location, VERB", "count": 3, "total": 4, "known": "location, person, work"}
        assert "LOC (1), Location (1), VERB (1)" in done.stdout
    values = json.loads((tmp_path / "report" / "evaluation.json").read_text(encoding="utf-8"))
    assert values["facts"]["unknown_labels"] == "LOC (1), Location (1), VERB (1)"
    assert {label: each["ceiling"] for label, each in values["per_label"].items() if each["support"]} == {
        "LOC": 0,
        "Location": 0,
        "VERB": 0,
        "location": 1,
    }
    assert values["micro"]["ceiling"] == 0.25
    for page in ("evaluation.md", "evaluation.html"):
        assert "LOC (1), Location (1), VERB (1)" in (tmp_path / "report" / page).read_text(encoding="utf-8")
    with_labels(data, "location")
    with warnings.catch_warnings():
        warnings.simplefilter("error", CoreWarning)
        done = spanmarker("evaluate", "--model", tiny_bundle, "--data", data)
    assert "unknown_labels" not in done.stdout


@pytest.mark.filterwarnings("ignore::spanmarker_core.errors.CoreWarning")
@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_tables_on_the_console_cut_no_label(tiny_bundle, tmp_path, columns):
    labels = [f"organization-of-{kind}-with-a-long-name" for kind in ("type-one", "type-two")] + ["x" * 300, "person"]
    data = with_labels(tmp_path / "data.jsonl", *labels)
    done = spanmarker("evaluate", "--model", tiny_bundle, "--data", data)
    assert "…" not in done.stdout
    assert [done.stdout.count(label) for label in labels[:2]] == [2, 2]  # in the table, and among the unknown ones
    file = io.StringIO()
    print_markdown(Console(file=file, width=int(columns)), f"| | F1 % |\n|:--|--:|\n| {labels[0]} | 1.00 |\n")
    first = (line.rpartition(" 1.00")[0] or line for line in file.getvalue().splitlines())
    assert labels[0] in "".join(line.strip() for line in first)


def printed(result, width) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    print_scores(console, result, {"model": "bundle", "unknown_labels": "a"})
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_scores_on_a_narrow_screen_are_whole_and_end_with_f1():
    labels = ["location-road/railway/highway/transit", "organization-government/governmentagency", "person"]
    scorer = SpanScorer(entity_max_length=2)
    scorer.add([Span(i, i + 1, label) for i, label in enumerate(labels)], [Span(0, 1, labels[0])])
    result = replace(scorer.result(), f1_interval=(0.25, 0.75))
    lines = printed(result, 80)
    assert max(map(len, lines)) <= 80
    assert lines[-1] == "F1 50.0% (95% interval 25.0% to 75.0%)"
    narrow = printed(result, 32)
    assert max(map(len, narrow)) <= 32
    assert labels[0] in "".join(line.split(" ")[0] for line in narrow)
    assert ["in", "%", "F1"] in [line.split() for line in narrow]
    for label in labels[:2]:
        assert label in "".join(line.split(" ")[0] for line in lines)
    (row,) = (line.split() for line in lines if line.startswith(labels[0]))
    assert row[1:] == ["100.0", "100.0", "100.0", "1", "1"]
    heads = ["in", "%", "precision", "recall", "F1", "gold", "predicted"]
    assert heads in [line.split() for line in lines]
    scorer.add([Span(0, 3, "person")], [])  # too long for the model
    assert [*heads[:4], "ceiling", *heads[4:]] in [line.split() for line in printed(scorer.result(), 80)]
    assert printed(scorer.result(), 80)[-1] == "F1 40.0%"


def test_a_label_turns_no_text_around_on_the_console():
    scorer = SpanScorer()
    scorer.add([Span(0, 1, "a\u202eb\x1b[31m[red]")], [])
    assert any(line.startswith("a\ufffdb\ufffd[31m[red]") for line in printed(scorer.result(), 100))


def test_evaluate_says_at_once_that_it_cannot_write(tiny_bundle, data, tmp_path):
    other = tmp_path / "other.jsonl"
    other.write_text("{}")
    done = spanmarker("evaluate", "--model", tiny_bundle, "--data", data, "--report", other)
    assert done.returncode == 1
    assert done.stderr.startswith("spanmarker: [output.not_writable]")
    assert other.read_text(encoding="utf-8") == "{}"


def test_a_report_of_data_that_turn_bad_leaves_what_was_there(data, tiny_bundle, tmp_path):
    bad = tmp_path / "bad.jsonl"
    bad.write_text(data.read_text() + "{\n")
    fresh, kept = tmp_path / "fresh", tmp_path / "kept"
    assert spanmarker("evaluate", "--model", tiny_bundle, "--data", data, "--report", kept).returncode == 0
    before = {path.name: path.read_bytes() for path in kept.iterdir()}
    for folder in (fresh, kept):
        done = spanmarker("evaluate", "--model", tiny_bundle, "--data", bad, "--report", folder)
        assert done.returncode == 1
        assert "[data.bad_record]" in done.stderr
    assert not fresh.exists()
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == before


def test_evaluate_leaves_nothing_where_its_data_is_missing(tiny_bundle, tmp_path):
    options = ("--data", tmp_path / "none.jsonl", "--report", tmp_path / "report")
    done = spanmarker("evaluate", "--model", tiny_bundle, *options)
    assert (done.returncode, done.stderr.split("]")[0]) == (1, "spanmarker: [data.not_found")
    assert not (tmp_path / "report").exists()


def test_import_checkpoint(tmp_path):
    done = spanmarker("import-checkpoint", GOLDEN / "roberta", tmp_path / "bundle")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "bundle" / "digests.json").exists()
    again = spanmarker("import-checkpoint", GOLDEN / "roberta", tmp_path / "bundle")
    assert (again.returncode, again.stderr.split("]")[0]) == (1, "spanmarker: [bundle.output_exists")


def test_import_checkpoint_of_what_is_not_on_this_machine(tmp_path):
    for name, code in (("name", "checkpoint.not_found"), ("owner/name", "hub.not_cached")):
        done = spanmarker("import-checkpoint", name, tmp_path / "bundle")
        assert (done.returncode, done.stderr.split("]")[0]) == (1, f"spanmarker: [{code}")
    assert not (tmp_path / "bundle").exists()


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_import_checkpoint_of_pointers(tmp_path, name):
    shutil.copytree(GOLDEN / "roberta", tmp_path / "in")
    (tmp_path / "in" / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")
    done = spanmarker("import-checkpoint", tmp_path / "in", tmp_path / "bundle")
    assert (done.returncode, done.stderr.split("]")[0]) == (1, "spanmarker: [checkpoint.not_span_marker")
    assert f"cannot read {name}: {POINTER_PROBLEM}" in done.stderr


@pytest.mark.services
def test_import_checkpoint_as_a_process(tmp_path):
    """The tests above run the commands in their own process, in which everything is imported already."""
    command = [sys.executable, "-m", "pipelines.cli", "import-checkpoint", GOLDEN / "roberta", tmp_path / "bundle"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "bundle" / "digests.json").exists()


def test_train_reports_every_error_of_its_job(tmp_path):
    done = spanmarker("train", "--train", "x", "--epochs", 0, "--context", "corpus", "--output", tmp_path / "b")
    assert done.returncode == 1
    for name in ("dev", "encoder", "epochs", "context"):
        assert f"  --{name}" in done.stderr
    assert "Traceback" not in done.stderr


def test_tag_requires_documents_or_samples():
    for given in ((), ("--input", "a", "--samples", "b")):
        done = spanmarker("tag", "--output", "o", *given)
        assert (done.returncode, done.stderr.split("]")[0]) == (1, "spanmarker: [job.invalid")
        assert "None" not in done.stderr

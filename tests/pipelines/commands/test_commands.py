"""`train`, `evaluate` and `import-checkpoint` as a user runs them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_evaluate_says_at_once_that_it_cannot_write(tiny_bundle, data, tmp_path):
    other = tmp_path / "other.jsonl"
    other.write_text("{}")
    done = spanmarker("evaluate", "--model", tiny_bundle, "--data", data, "--report", other)
    assert done.returncode == 3
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
        assert f"  {name}: " in done.stderr
    assert "Traceback" not in done.stderr

"""`spanmarker representations` as a user runs it."""

import json

import pytest

from pipelines.commands.representations import representations
from pipelines.errors import PipelineError
from spanmarker_core import load
from spanmarker_core.data import read_annotated
from spanmarker_core.errors import CoreError
from spanmarker_core.evaluation.representations.representations import FORMAT_VERSION, analyse
from tests.support.jobs import spanmarker
from tests.support.tiny import tiny_bundle as write_tiny

WORDS = ["Obama", "flew", "to", "New", "York"]


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.jsonl"
    lines = []
    for number in range(4):
        entities = [{"start": 3, "end": 5, "label": "location"}, {"start": 3, "end": 4, "label": "work"}]
        lines.append({"document_id": f"d{number}", "sentence_id": 0, "tokens": WORDS, "entities": entities})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_it_writes_its_report_and_says_the_same(tiny_bundle, data, tmp_path):
    report = tmp_path / "new" / "report"
    done = spanmarker("representations", "--model", tiny_bundle, "--data", data, "--report", report, "--spans", 3)
    assert done.returncode == 0, done.stderr
    values = json.loads((report / "representations.json").read_text(encoding="utf-8"))
    assert {path.name for path in report.iterdir()} == {f"representations.{kind}" for kind in ("html", "json", "md")}
    assert values["format_version"] == FORMAT_VERSION
    assert values["facts"]["architecture"] == "span_marker.v1"
    model = load(tiny_bundle)
    assert values["facts"]["model_digest"] == model.bundle.digest
    assert [each["taken"] for each in values["norms"]] == [3, 3, 3]
    expected = analyse(model, read_annotated(data), 3).to_json(values["facts"])
    assert values["cosines"]["within"] == pytest.approx(expected["cosines"]["within"], abs=1e-5)
    page = (report / "representations.md").read_text(encoding="utf-8")
    assert page.startswith("# Representations\n")
    assert "| location | 4 | 3 |" in page
    assert "Overlapping spans" in done.stdout
    assert str(report / "representations.html") in done.stdout.replace("\n", "")


def run(model, data, report):
    options = {"scheme": None, "spans": 3, "device": "cpu", "dtype": "float32"}
    representations(model=str(model), data=str(data), report=str(report), **options)


def test_what_decodes_by_tags_has_none(data, tmp_path):
    model = write_tiny(tmp_path / "tags", architecture="seq_ner.v1", start_marker_id=None, end_marker_id=None)
    with pytest.raises(CoreError, match=r"representations\.none"):
        run(model, data, tmp_path / "report")
    assert not (tmp_path / "report").exists()


def test_it_says_at_once_that_it_cannot_write(tiny_bundle, data, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(PipelineError, match=r"output\.not_writable"):
        run(tiny_bundle, data, tmp_path / "file")

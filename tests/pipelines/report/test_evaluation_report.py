"""A report as it is written, read again and compared."""

import json
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.errors import PipelineError
from pipelines.report.comparison import compare_reports, publish_comparison
from pipelines.report.evaluation import analysed, publish_report
from pipelines.report.predictions import PREDICTIONS, read_predictions, writing_predictions
from schemas import EVALUATED
from spanmarker_core.data import Sentence, Span
from spanmarker_core.errors import CoreError
from tests.support.jobs import spanmarker

SENTENCES = [
    ("a", 0, "Barack Obama flew to New York", [(0, 2, "person"), (4, 6, "location"), (5, 6, "location")]),
    ("a", 1, "he was in London", [(3, 4, "location")]),
    ("b", 0, "Müller of Zürich", [(0, 1, "person"), (2, 3, "location")]),
    ("c", 0, "the fine York", [(2, 3, "film")]),
]


def write_data(path, sentences=SENTENCES):
    lines = [
        {
            "document_id": document,
            "sentence_id": number,
            "tokens": words.split(),
            "entities": [{"start": start, "end": end, "label": label} for start, end, label in entities],
        }
        for document, number, words, entities in sentences
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def data():
    return [
        Sentence(document, number, words.split(), [Span(*entity) for entity in entities])
        for document, number, words, entities in SENTENCES
    ]


@pytest.fixture
def report(tiny, tmp_path):
    """Write a report under a name, of some sentences with some threshold."""

    def write(name="report", sentences=None, threshold=None):
        folder = tmp_path / name
        folder.mkdir()
        analysis, _ = analysed(str(folder), tiny, sentences or data(), threshold=threshold)
        publish_report(str(folder), analysis.result(), {"model": "tiny", "data": "made"}, analysis.to_json())
        return folder

    return write


def test_a_user_evaluates_twice_and_compares(tiny_bundle, tmp_path):
    """What is printed, written and refused."""
    path, train = write_data(tmp_path / "data.jsonl"), write_data(tmp_path / "train.jsonl", SENTENCES[:2])
    for name, options in (("first", ["--train", str(train)]), ("second", ["--threshold", "0.3"])):
        arguments = ["evaluate", "--model", str(tiny_bundle), "--data", str(path), "--report", str(tmp_path / name)]
        done = spanmarker(*arguments, *options)
        assert done.returncode == 0, done.stderr
    assert sorted(each.name for each in (tmp_path / "first").iterdir()) == [
        "evaluation.html",
        "evaluation.json",
        "evaluation.md",
        PREDICTIONS,
    ]
    values = json.loads((tmp_path / "first" / "evaluation.json").read_text(encoding="utf-8"))
    assert values["facts"]["train"] == str(train)
    assert "groups" in values["surface_forms"]
    assert "Written by spanmarker" in (tmp_path / "first" / "evaluation.html").read_text(encoding="utf-8")
    done = spanmarker("compare", tmp_path / "first", tmp_path / "second", "--report", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "Comparison" in done.stdout
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == [
        "comparison.html",
        "comparison.json",
        "comparison.md",
    ]


def test_names_of_files_that_are_no_utf8_are_told(tiny_bundle, tmp_path):
    path, folder = write_data(tmp_path / "caf\udce9.jsonl"), tmp_path / "report"
    done = spanmarker("evaluate", "--model", tiny_bundle, "--data", path, "--report", folder)
    assert done.returncode == 0, done.stderr
    assert "caf\\udce9.jsonl" in done.stdout
    assert "caf\\udce9.jsonl" in (folder / "evaluation.md").read_text(encoding="utf-8")
    assert json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))["facts"]["data"] == str(path)
    values = compare_reports(str(folder), str(folder))
    publish_comparison(str(tmp_path), values)
    assert json.loads((tmp_path / "comparison.json").read_text(encoding="utf-8")) == values


def test_train_is_for_a_report(tiny_bundle, tmp_path):
    path = str(write_data(tmp_path / "data.jsonl"))
    done = CliRunner().invoke(app, ["evaluate", "--model", str(tiny_bundle), "--data", path, "--train", path])
    assert (done.exit_code, "--report" in done.output) == (2, True)


def test_comparing_loads_no_model(report):
    folders = str(report("first")), str(report("second"))
    code = (
        "import sys; from pipelines.report.comparison import compare_reports; "
        f"compare_reports(*{folders!r}); print('torch' in sys.modules, 'transformers' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_a_report_is_the_same_again(report):
    first, second = report("first"), report("second")
    for path in first.iterdir():
        assert path.read_bytes() == (second / path.name).read_bytes(), path.name


def test_predictions_come_back_as_they_were(report, tiny):
    folder = report()
    table = pq.read_table(folder / PREDICTIONS)
    assert table.schema.equals(EVALUATED.schema)
    assert table.schema.metadata == EVALUATED.schema.metadata
    back = list(read_predictions(str(folder)))
    assert [(each.document_id, each.sentence_id, each.words) for each, _ in back] == [
        (each.document_id, each.sentence_id, each.words) for each in data()
    ]
    assert [set(each.entities) for each, _ in back] == [set(each.entities) for each in data()]
    tagged = tiny.tag_words([each.words for each in data()], document_ids=[each.document_id for each in data()])
    expected = [{Span(e.word_start, e.word_end, e.label): e.score for e in entities} for entities in tagged]
    assert [found for _, found in back] == expected


def test_the_report_scores_what_its_predictions_are(report):
    folder = report(threshold=0.3)
    values = json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))
    pairs = [(set(sentence.entities), set(found)) for sentence, found in read_predictions(str(folder))]
    assert values["micro"]["correct"] == sum(len(gold & found) for gold, found in pairs)
    assert values["micro"]["predicted"] == sum(len(found) for _, found in pairs)
    assert values["micro"]["support"] == 7


def test_large_texts_are_written_in_row_groups(tmp_path):
    sentences = [Sentence(f"d{number}", 0, ["x" * 2_500_000], []) for number in range(3)]
    with writing_predictions(str(tmp_path)) as writer:
        for sentence in sentences:
            writer.add(sentence, {Span(0, 1, "x"): 0.5})
    assert pq.ParquetFile(tmp_path / PREDICTIONS).num_row_groups == 2
    assert [each.document_id for each, _ in read_predictions(str(tmp_path))] == ["d0", "d1", "d2"]


def test_an_evaluation_that_says_nothing_leaves_what_was_there(report, tiny):
    folder = report()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    unlabelled = [Sentence("a", 0, ["Paris"], [])]
    with pytest.raises(CoreError, match=r"data.no_entities"):
        analysed(str(folder), tiny, unlabelled)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_comparison_is_written(report, tmp_path):
    values = compare_reports(str(report("first")), str(report("second", threshold=0.2)))
    assert values["sentences"] == 4
    assert values["documents"] == 3
    assert set(values["attributes"]) == {"eLen", "tLen", "eDen"}  # the others need the training data
    (tmp_path / "out").mkdir()
    page = publish_comparison(str(tmp_path / "out"), values)
    assert json.loads((tmp_path / "out" / "comparison.json").read_text(encoding="utf-8")) == values
    assert "There are only 3 documents" in (tmp_path / "out" / "comparison.html").read_text(encoding="utf-8")
    assert page.endswith("comparison.html")


def test_a_comparison_over_one_document_claims_nothing_of_others(report, tmp_path):
    only = data()[:2]
    values = compare_reports(str(report("first", only)), str(report("second", only, threshold=0.01)))
    assert [values["all"][name] for name in ("low", "high", "p")] == [None, None, None]
    publish_comparison(str(tmp_path), values)
    for kind in ("md", "html"):
        text = (tmp_path / f"comparison.{kind}").read_text(encoding="utf-8").replace("&#39;", "'")
        assert "All sentences belong to one document" in text
    assert "p –" in (tmp_path / "comparison.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("change", ["word", "gold", "sentence", "document"])
def test_reports_of_other_data_are_refused(report, change):
    other = data()
    last = other[-1]
    if change == "word":
        other[-1] = Sentence(last.document_id, last.sentence_id, [*last.words[:-1], "Yorks"], last.entities)
    elif change == "gold":
        other[-1] = Sentence(last.document_id, last.sentence_id, last.words, [Span(1, 3, "film")])
    elif change == "document":
        other[-1] = Sentence("z", last.sentence_id, last.words, last.entities)
    else:
        other = other[:-1]
    first, second = report("first"), report("second", other)
    with pytest.raises(PipelineError, match=r"compare.other_data") as caught:
        compare_reports(str(first), str(second))
    problem = str(caught.value.values["problem"])
    assert ("other ids" in problem) == (change == "document")
    assert (f"document {last.document_id!r}" in problem) == (change != "sentence")


@pytest.mark.parametrize("change", ["more", "fewer", "other"])
def test_predictions_that_were_exchanged_are_refused(report, change):
    first, second = report("first"), report("second")
    sentences = {"more": [*data(), Sentence("z", 0, ["a"], [])], "fewer": data()[:-1], "other": data()[::-1]}[change]
    with writing_predictions(str(second)) as writer:
        for sentence in sentences:
            writer.add(sentence, {})
    with pytest.raises(PipelineError, match=r"compare.other_data.*document .* differs"):
        compare_reports(str(first), str(second))


def test_scores_of_other_predictions_are_refused(report):
    """An evaluation that fails once its predictions are written leaves the scores of the one before."""
    first, second = report("first"), report("second")
    (second / PREDICTIONS).write_bytes((report("other", threshold=0.01) / PREDICTIONS).read_bytes())
    with pytest.raises(PipelineError, match=r"report.not_readable.*second.* from different evaluations"):
        compare_reports(str(first), str(second))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("evaluation.json", None),
        ("evaluation.json", b"{"),
        ("evaluation.json", b"[]"),
        ("evaluation.json", b'{"format_version": 1}'),
        ("evaluation.json", b'{"format_version": 2}'),
        (PREDICTIONS, None),
        (PREDICTIONS, b"PAR1"),
    ],
)
def test_what_is_no_report_is_refused(report, name, content):
    first, second = report("first"), report("second")
    (second / name).unlink()
    if content is not None:
        (second / name).write_bytes(content)
    with pytest.raises(PipelineError, match=r"report.not_readable"):
        compare_reports(str(first), str(second))

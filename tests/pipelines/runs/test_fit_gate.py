"""Gates as a user meets them: exact without, told where used, fitted to a finished bundle."""

import io
import json

import numpy as np
import pytest
from rich.console import Console

from pipelines.errors import PipelineError
from pipelines.jobs.fit_gate import GateJob
from pipelines.jobs.job_file import read_job
from pipelines.runs.fit_gate import read_corpus, run_gate_fit
from spanmarker_core.bundle.reader import read_info
from spanmarker_core.errors import CoreError
from spanmarker_core.training import fit_gate as fitting
from spanmarker_core.windows.packer import Windows
from tests.pipelines.commands.test_commands import SENTENCE
from tests.support.jobs import all_rows, documents, rows, spanmarker, tag, write_jsonl
from tests.support.tiny import GATE
from tests.support.tiny import tiny_bundle as write_bundle


@pytest.fixture(scope="module")
def gated(tmp_path_factory):
    """The tiny bundle with a gate beside it, which is only used when asked for."""
    return write_bundle(tmp_path_factory.mktemp("gated") / "bundle", gate=GATE)


def others(count):
    """Documents of different texts."""
    return [{**row, "text": f"{row['text']} It was {number}."} for number, row in enumerate(documents(count))]


@pytest.fixture
def corpus(tmp_path):
    return write_jsonl(tmp_path / "in.jsonl", documents(20))


@pytest.fixture
def data(tmp_path):
    return write_jsonl(tmp_path / "data.jsonl", [SENTENCE])


def test_without_its_gate_a_bundle_gives_the_same_rows(corpus, tmp_path, tiny_bundle, gated):
    tag([corpus], tmp_path / "plain", tiny_bundle)
    for gate in ("auto", "off"):
        tag([corpus], tmp_path / gate, gated, gate=gate)
        assert all_rows(tmp_path / gate) == all_rows(tmp_path / "plain")


def test_with_its_gate_it_scores_fewer_spans_and_says_so(corpus, tmp_path, gated):
    tag([corpus], tmp_path / "off", gated)
    tag([corpus], tmp_path / "on", gated, gate="on")
    work = {gate: json.loads((tmp_path / gate / "report.json").read_text())["output"]["work"] for gate in ("off", "on")}
    assert work["off"]["scored_share"] == 1.0
    assert work["off"]["scored_candidates"] == work["on"]["candidates"] > work["on"]["scored_candidates"] > 0
    assert work["on"]["tokens"] == work["off"]["tokens"] <= work["on"]["token_places"]
    assert 0 < work["on"]["useful_token_share"] <= 1
    assert len(rows(tmp_path / "on", "annotations")) < len(rows(tmp_path / "off", "annotations"))
    page = (tmp_path / "on" / "report.md").read_text()
    assert f"{work['on']['scored_share']:.2%}; the gate discarded the others" in page
    assert "| gate | on from 0.5 |" in page


def test_where_tags_give_the_entities_no_span_is_said_to_be_scored(corpus, data, tmp_path):
    model = write_bundle(tmp_path / "bundle", architecture="seq_ner.v1", start_marker_id=None, end_marker_id=None)
    tag([corpus], tmp_path / "out", model)
    work = json.loads((tmp_path / "out" / "report.json").read_text())["output"]["work"]
    assert (work["candidates"], work["scored_candidates"], work["scored_share"]) == (0, 0, None)
    page = (tmp_path / "out" / "report.md").read_text()
    assert f"from the model's tags, so no spans were scored. It encoded {work['tokens']:,} tokens" in page
    assert "the gate discarded" not in page
    done = spanmarker("evaluate", "--model", model, "--data", data, "--report", tmp_path / "evaluation")
    assert done.returncode == 0, done.stderr
    facts = json.loads((tmp_path / "evaluation" / "evaluation.json").read_text(encoding="utf-8"))["facts"]
    assert facts["scored_spans"] == "none"


def test_a_gate_that_is_not_there_is_refused_before_anything_is_written(corpus, tmp_path, tiny_bundle):
    with pytest.raises(CoreError, match=r"call.no_gate"):
        tag([corpus], tmp_path / "out", tiny_bundle, gate="on")
    assert not (tmp_path / "out").exists()


def test_evaluate_takes_gate_and_dtype(gated, data, tmp_path):
    options = ("--gate", "on", "--dtype", "bfloat16", "--report", tmp_path / "report")
    done = spanmarker("evaluate", "--model", gated, "--data", data, *options)
    assert done.returncode == 0, done.stderr
    facts = json.loads((tmp_path / "report" / "evaluation.json").read_text(encoding="utf-8"))["facts"]
    assert (facts["gate"], facts["dtype"]) == ("on from 0.5", "bfloat16")
    scored, _, total, _ = facts["scored_spans"].split()
    assert int(scored) < int(total)


@pytest.mark.parametrize(("gate", "code"), [("on", "call.no_gate"), ("yes", "call.unknown_option")])
def test_evaluate_refuses_a_gate_that_is_not_there(tiny_bundle, data, gate, code):
    done = spanmarker("evaluate", "--model", tiny_bundle, "--data", data, "--gate", gate)
    assert (done.returncode, done.stderr.split("]")[0]) == (1, f"spanmarker: [{code}")


def test_fit_writes_a_bundle_that_tags_with_and_without_its_gate(tmp_path, tiny_bundle, monkeypatch):
    monkeypatch.setattr(fitting, "_STEPS", 200)
    corpus = write_jsonl(tmp_path / "corpus.jsonl", [*others(80), {"id": "n", "text": None}])
    before = {path.name: path.read_bytes() for path in tiny_bundle.iterdir()}
    options = ("--model", tiny_bundle, "--corpus", corpus, "--sentences", 80, "--target-recall", 0.9)
    done = spanmarker("gate", "fit", *options, "--output", tmp_path / "b")
    assert done.returncode == 0, done.stderr
    assert "it is off by default" in done.stdout.splitlines()[-1]
    assert {path.name: path.read_bytes() for path in tiny_bundle.iterdir()} == before
    config = read_info(tmp_path / "b").config
    facts = config.facts["gate"]
    assert (config.gate["trained"], config.gated, facts["target_recall"]) == ("fitted", False, 0.9)
    assert facts["sentences"] == 80
    assert facts["held_out_passing"] >= 0.9 * facts["held_out_entities"]
    assert (tmp_path / "b" / "gate.svg").exists()

    tag([corpus], tmp_path / "plain", tiny_bundle)
    tag([corpus], tmp_path / "off", tmp_path / "b")
    assert all_rows(tmp_path / "off") == all_rows(tmp_path / "plain")
    tag([corpus], tmp_path / "on", tmp_path / "b", gate="on")
    assert 0 < len(rows(tmp_path / "on", "annotations")) <= len(rows(tmp_path / "off", "annotations"))

    again = spanmarker("gate", "fit", *options, "--output", tmp_path / "b")
    assert (again.returncode, again.stderr.split("]")[0]) == (1, "spanmarker: [bundle.output_exists")


def test_fit_refuses_a_gate_that_was_trained_with_its_model(tmp_path):
    bundle = write_bundle(tmp_path / "joint", gate={**GATE, "trained": "joint"})
    job = GateJob(model=str(bundle), corpus=["none/*.jsonl"], output=str(tmp_path / "out"))
    with pytest.raises(CoreError, match=r"gate.trained_jointly"):
        run_gate_fit(job, Console(file=io.StringIO()))
    assert not (tmp_path / "out").exists()


def test_fit_reports_every_error_of_its_job(tmp_path):
    done = spanmarker("gate", "fit", "--model", "x", "--target-recall", 2)
    assert done.returncode == 1
    for name in ("corpus", "output", "target-recall"):
        assert f"  --{name}" in done.stderr


@pytest.mark.parametrize("wanted", [7, 60])
def test_text_comes_from_many_files_and_no_document_gives_more_than_its_share(tmp_path, tiny, wanted):
    for number in range(12):
        texts = {f"{number}-{row}": f"Flight {number} of {row}. " * 40 for row in range(20)}
        write_jsonl(tmp_path / f"{number}.jsonl", [{"id": id_, "text": text} for id_, text in texts.items()])
    job = GateJob(model=str(tiny), corpus=[f"{tmp_path}/*.jsonl"], output=str(tmp_path / "out"), sentences=wanted)
    corpus = read_corpus(job, tiny.config.context, tiny.packer)
    assert corpus.more_documents
    windows = Windows.concatenate(corpus.parts)
    _, of_documents = np.unique(windows.document, return_counts=True)
    assert sorted(set(windows.word_sentence.tolist())) == list(range(wanted))
    assert of_documents.max() <= 20
    assert of_documents.sum() == wanted


def test_files_of_one_document_each_are_a_corpus_too(tmp_path, tiny):
    for number in range(100):
        write_jsonl(tmp_path / f"{number}.jsonl", [{"id": number, "text": f"Flight {number} left."}])
    job = GateJob(model=str(tiny), corpus=[f"{tmp_path}/*.jsonl"], output=str(tmp_path / "out"), sentences=90)
    corpus = read_corpus(job, tiny.config.context, tiny.packer)
    assert len(corpus.parts) == corpus.sentences == 90
    assert corpus.more_documents


def fit_job(tmp_path, model, records, **options):
    corpus = write_jsonl(tmp_path / "corpus.jsonl", records)
    return GateJob(model=str(model), corpus=[str(corpus)], output=str(tmp_path / "out"), **options)


def test_equal_texts_count_once_and_what_is_left_out_is_told(tmp_path, tiny, tiny_bundle):
    plain = others(5)
    copies = [{"id": f"copy-{number}", "text": plain[0]["text"]} for number in range(3)]
    broken = [{"id": "n", "text": None}, {"id": "m", "text": None}, {"id": None, "text": "He flew."}]
    job = fit_job(tmp_path, tiny_bundle, [*plain, *copies, *broken])
    corpus = read_corpus(job, tiny.config.context, tiny.packer)
    assert (len(corpus.parts), corpus.more_documents) == (5, False)
    told = "left out: 3 copies of documents, 3 rejected records (null_text 2, null_id 1)"
    assert corpus.counts() == f"{corpus.sentences} sentences of 5 documents; {told}"
    with pytest.raises(CoreError) as caught:
        run_gate_fit(job, Console(file=io.StringIO()))
    assert caught.value.code == "gate.corpus_too_small"
    assert caught.value.__cause__.code == "gate.too_few_entities"
    assert corpus.counts() in caught.value.values["read"]
    assert caught.value.values["remedy"].startswith("Pass more files")


@pytest.mark.parametrize(
    ("records", "sentences", "cause", "remedy"),
    [
        (2, 3000, None, "Pass more files"),
        (9, 30, None, "Raise --sentences"),
        (9, 80, "gate.too_few_entities", "Raise --sentences"),
    ],
)
def test_too_little_text_is_told_with_its_remedy(tmp_path, tiny_bundle, records, sentences, cause, remedy):
    texts = [{"id": str(number), "text": f"Flight {number} was it. " * 40} for number in range(records)]
    job = fit_job(tmp_path, tiny_bundle, texts, sentences=sentences)
    with pytest.raises(CoreError) as caught:
        run_gate_fit(job, Console(file=io.StringIO()))
    assert caught.value.code == "gate.corpus_too_small"
    assert getattr(caught.value.__cause__, "code", None) == cause
    assert cause or " 2 documents " in caught.value.values["problem"]
    assert caught.value.values["remedy"].startswith(remedy)
    assert not (tmp_path / "out").exists()


def test_a_corpus_of_rejects_is_told_as_that(tmp_path, tiny_bundle):
    job = fit_job(tmp_path, tiny_bundle, [{"id": str(number), "text": None} for number in range(4)])
    with pytest.raises(CoreError, match=r"gate.corpus_too_small.*left out: 4 rejected records \(null_text 4\)"):
        run_gate_fit(job, Console(file=io.StringIO()))


@pytest.mark.parametrize(("output", "code"), [("s3://bucket/b", "bundle.output_not_writable"), (None, "output_inside")])
def test_fit_writes_to_local_folders_outside_its_model(tmp_path, tiny_bundle, output, code):
    job = fit_job(tmp_path, tiny_bundle, documents(3)).model_copy(update={"output": output or f"{tiny_bundle}/gated"})
    with pytest.raises(CoreError, match=code):
        run_gate_fit(job, Console(file=io.StringIO()))
    assert not (tiny_bundle / "gated").exists()


def test_options_of_a_fit_fit_together():
    values = {"model": "m", "corpus": ["c"], "output": "o", "id_column": "text", "scheme": "IOB2"}
    with pytest.raises(PipelineError, match=r"both 'text'\n  --scheme .*--annotated"):
        read_job(GateJob, None, values)

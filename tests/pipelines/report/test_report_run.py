"""The report of real runs: held against the rows, the same whatever the engine, and of a run that had little to do."""

import json
import shlex
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.jobs.tag import TagJob
from pipelines.report.command import command_line
from spanmarker_core import load
from spanmarker_core.card import rewrite_card
from spanmarker_core.data import Sentence, Span
from spanmarker_core.training.export import density_facts
from tests.support.jobs import tag, write_jsonl
from tests.support.tiny import tiny_bundle

#: What the tiny model finds much in, and another language, in which it finds little.
USUAL = "He was in it on the for of York. She is at and to a was of Obama."
OTHER = "Ζεύς και Ήρα στον Όλυμπο"
SMALL = {"max_shard_bytes": 4000}
#: What differs between two runs over the same rows.
TIMES = ("seconds_by_stage", "stages", "slowest_shards", "worker_peak_rss_bytes")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A tiny bundle that says what it found in dev data of the usual kind."""
    path = tiny_bundle(tmp_path_factory.mktemp("model") / "bundle", "electra")
    sentences = [
        Sentence(f"d{number}", 0, USUAL.split(), [Span(0, 1, "person")] * (number % 9)) for number in range(150)
    ]
    rewrite_card(path, density_facts(load(path), sentences))
    return path


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("in")
    write_jsonl(folder / "usual.jsonl", [{"id": f"u{number}", "text": f"{USUAL} " * 2} for number in range(60)])
    write_jsonl(folder / "other.jsonl", [{"id": f"o{number}", "text": OTHER} for number in range(150)])
    bad = [{"id": "n", "text": None}, b"{", {"id": "blank", "text": " \n"}]
    write_jsonl(folder / "ugly.jsonl", [*bad, {"id": "last", "text": USUAL}])
    return folder


@pytest.fixture(scope="module")
def finished(model, corpus, tmp_path_factory):
    """The output of a run, and what it printed."""
    output = tmp_path_factory.mktemp("run") / "out"
    return output, tag([corpus / "*.jsonl"], output, model, **SMALL)


def report(output: Path):
    return json.loads((output / "report.json").read_text(encoding="utf-8"))


def test_the_report_is_what_the_rows_say(finished, model):
    output, _ = finished
    values = report(output)
    found, counts = values["output"]["found"], values["output"]["counts"]
    annotations, documents = (f"read_parquet('{output}/{table}/*.parquet')" for table in ("annotations", "documents"))

    def asked(query):
        return duckdb.sql(query).fetchall()

    assert asked(f"SELECT count(*) FROM {annotations}") == [(counts["entities"],)] == [(found["rows"],)]
    assert found["rows_looked_at"] == found["rows"] == sum(found["score_bins"]) > 100
    by_label = dict(asked(f"SELECT label, count(*) FROM {annotations} GROUP BY label"))
    assert {label["label"]: label["rows"] for label in found["labels"]} == by_label
    assert values["output"]["entities_by_label"] == by_label
    for label in found["labels"]:
        top = asked(
            f"SELECT text, count(*) AS n FROM {annotations} WHERE label = '{label['label']}' "
            "GROUP BY text ORDER BY n DESC, text LIMIT 10"
        )
        assert [(each["text"], each["count"]) for each in label["top"]] == top
    sums = asked(
        f"SELECT source, count(*), sum(n_words)::INT, sum(n_entities)::INT, sum((status = 'rejected')::INT)::INT "
        f"FROM {documents} GROUP BY source"
    )
    told = values["output"]["density"]["shown"]
    names = ("source", "documents", "words", "entities", "rejected")
    assert sorted(tuple(each[name] for name in names) for each in told) == sorted(sums)
    statuses = dict(asked(f"SELECT status, count(*) FROM {documents} GROUP BY status"))
    assert {name: counts[name] for name in statuses} == statuses == {"tagged": 211, "empty": 1, "rejected": 2}
    assert sum(shard["words"] for shard in values["output"]["largest_shards"]) == counts["words"]
    assert set(values["versions"]) >= {"code", "python", "torch", "transformers", "pyarrow"}
    run = values["this_run"]
    assert sum(stage["share"] for stage in run["stages"] if not stage["beside"]) == pytest.approx(1, abs=1e-3)
    assert run["pace"][0]["second"] == 0


def test_another_language_alarms_on_the_page_and_on_the_console(finished):
    output, printed = finished
    density = report(output)["output"]["density"]
    alarms = {Path(each["source"]).name: each["alarm"] for each in density["shown"]}
    assert alarms == {"other.jsonl": "too few entities", "usual.jsonl": None, "ugly.jsonl": None}
    assert (density["too_few"], density["too_many"], density["no_band"]) == (1, 0, None)
    line = "Alarm: of 3 sources, 1 has too few entities"
    assert line in printed
    assert "report.html" in printed
    assert line in (output / "report.md").read_text(encoding="utf-8")
    assert "too few entities" in (output / "report.html").read_text(encoding="utf-8")


@pytest.mark.services
def test_another_engine_makes_the_same_report(finished, model, corpus, tmp_path):
    command = ["tag", "--input", f"{corpus}/*.jsonl", "--output", str(tmp_path / "local"), "--model", str(model)]
    result = CliRunner().invoke(app, [*command, "--max-shard-bytes", "4000", "--engine", "local"])
    assert result.exit_code == 0, result.output

    def same(values):
        kept = {name: value for name, value in values["output"].items() if name not in TIMES}
        kept["largest_shards"] = [
            {name: each[name] for name in each if name not in ("seconds", "words_per_second")}
            for each in kept["largest_shards"]
        ]
        return {**kept, "bytes": 0}

    def coarse(values):
        """Scores of two runs may differ in their last digits, and files by some bytes with them."""
        for each in values["largest_shards"]:
            del each["bytes"]
        return values

    local = report(tmp_path / "local")
    assert coarse(same(local)) == coarse(same(report(finished[0])))
    assert len(local["this_run"]["workers"]) == 1
    assert local["command"].startswith("spanmarker tag --input ")


def test_without_examples_the_report_holds_no_texts(finished, model, corpus, tmp_path):
    pages = ("report.html", "report.md", "report.json")
    output, _ = finished
    sample = report(output)["output"]["sample"]
    assert len(sample["sentences"]) > 4
    assert "Examples" in (output / "report.html").read_text(encoding="utf-8")
    output = tmp_path / "out"
    tag([corpus / "*.jsonl"], output, model, **SMALL, examples=False)
    values = report(output)
    assert values["output"]["sample"] is None
    assert values["output"]["found"]["rows"] == report(finished[0])["output"]["found"]["rows"] > 0
    assert shlex.split(values["command"])[-1] == "--no-examples"
    assert "Examples" not in (output / "report.html").read_text(encoding="utf-8")
    words = {word.strip(".") for word in f"{USUAL} {OTHER}".split() if len(word) > 3}
    for page in pages:
        text = (output / page).read_text(encoding="utf-8")
        assert [word for word in words if word in text] == []
    assert "--no-examples" in (output / "report.html").read_text(encoding="utf-8")


def test_a_finished_output_loses_its_examples_with_no_examples(corpus, model, tmp_path):
    output = tmp_path / "out"
    tag([corpus / "*.jsonl"], output, model, **SMALL)
    assert report(output)["output"]["sample"]["sentences"]
    tag([corpus / "*.jsonl"], output, model, **SMALL, examples=False)
    values = report(output)
    assert (values["output"]["sample"], values["this_run"]["shards_run"]) == (None, 0)
    assert "Nothing to do" in tag([corpus / "*.jsonl"], output, model, **SMALL, examples=False)


def test_the_report_of_a_run_with_little_to_do(model, corpus, tmp_path):
    folder, output = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    (folder / "other.jsonl").write_bytes((corpus / "other.jsonl").read_bytes())
    tag([folder / "*"], output, model, **SMALL)
    before = report(output)
    write_jsonl(folder / "more.jsonl", [{"id": f"m{number}", "text": USUAL} for number in range(3)])
    tag([folder / "*"], output, model, **SMALL)
    values = report(output)
    run = values["this_run"]
    assert run["shards_by_reason"] == {"new": 1}
    assert run["shards_done_before"] == before["this_run"]["shards_run"] > 0
    assert run["words"] == values["output"]["counts"]["words"] - before["output"]["counts"]["words"] > 0
    assert values["output"]["found"]["rows"] > before["output"]["found"]["rows"]
    assert sum(each["seconds"] for each in run["stages"]) < sum(each["seconds"] for each in values["output"]["stages"])
    page = (output / "report.html").read_text(encoding="utf-8")
    assert "done before with the same input, model and configuration" in page
    assert "no finished shard exists for these files" in page


def test_the_command_in_the_report_is_the_command(finished, monkeypatch):
    output, _ = finished
    words = shlex.split(report(output)["command"])
    assert words[0] == "spanmarker"
    result = CliRunner().invoke(app, words[1:])
    assert result.exit_code == 0, result.output
    assert "Nothing to do" in result.output


def test_a_command_keeps_secrets_and_quotes_the_rest():
    job = TagJob(
        input=["a b.jsonl", "c'd.jsonl"],
        output="out",
        engine="beam",
        force=True,
        threshold=0.5,
        storage_option=["s3.secret=hush hush"],
        beam_options=["--runner=FlinkRunner", "--streaming"],
        resources={},
    )
    line = command_line(job)
    assert "hush" not in line
    assert shlex.split(line) == [
        *("spanmarker", "tag", "--input", "a b.jsonl", "--input", "c'd.jsonl", "--output", "out", "--engine", "beam"),
        *("--storage-option", "s3.secret=…", "--force", "--threshold", "0.5", "--", "--runner=…", "--streaming"),
    ]


def test_a_prepared_corpus_has_a_report_without_entities(model, corpus, tmp_path):
    command = ["prepare", "--input", f"{corpus}/ugly.jsonl", "--output", str(tmp_path / "s"), "--model", str(model)]
    result = CliRunner().invoke(app, [*command, "--engine", "inline"])
    assert result.exit_code == 0, result.output
    values = report(tmp_path / "s")
    assert (values["output"]["found"], values["output"]["density"]) == (None, None)
    page = (tmp_path / "s" / "report.html").read_text(encoding="utf-8")
    assert 'id="documents"' in page
    assert 'id="entities"' not in page

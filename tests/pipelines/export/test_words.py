"""Words are those of the run, or the export is refused."""

import re

import pyarrow.parquet as pq
import pytest

from pipelines.export.output import TaggedOutput
from spanmarker_core.bundle.reader import read_info
from spanmarker_core.formats.words import word_sentences
from tests.pipelines.export.conftest import Run
from tests.pipelines.export.exported import documents_at, export
from tests.support.jobs import rows
from tests.support.tiny import tiny_bundle as write_bundle


@pytest.fixture(scope="module", params=["bert", "roberta"])
def run(request, tmp_path_factory):
    """A run whose words are those of a tokenizer; byte-level ones have empty words."""
    folder = tmp_path_factory.mktemp("words")
    model = write_bundle(folder / "model", request.param, splitter="tokenizer.v1")
    return Run(folder, model, decoder="flat.v1")


def test_words_of_a_tokenizer_need_the_model(run, flat, tmp_path):
    assert export(run.output, "sentences", tmp_path / "x") == "export.model_needed"
    assert export(run.output, "conll", tmp_path / "x", "--model", flat.model) == "export.other_model"
    assert "documents with" in export(run.output, "jsonl", tmp_path / "jsonl")
    export(run.output, "sentences", tmp_path / "x", "--one-file", "--model", run.model)
    found = [sentence for each in documents_at(tmp_path / "x", "sentences") for sentence in word_sentences(each)[0]]
    texts = ["".join(each.words[span.start : span.end]) for each in found for span in each.entities]
    wanted = rows(run.output, "annotations")
    assert len(texts) == len(wanted) > 20
    between = re.compile(r"[\s\u2063]")  # what is in none of the words
    assert sorted(between.sub("", text) for text in texts) == sorted(between.sub("", row["text"]) for row in wanted)


def test_shards_name_their_splitter(run, flat):
    for each, name in ((run, b"tokenizer.v1"), (flat, b"words.v1")):
        for path in (each.output / "documents").iterdir():
            assert pq.read_schema(path).metadata[b"spanmarker.splitter"] == name
        assert read_info(each.model).config.splitter == name.decode()


def test_outputs_of_earlier_versions_are_split_and_compared(run, flat, tmp_path, monkeypatch):
    schema = TaggedOutput.schema
    monkeypatch.setattr(TaggedOutput, "schema", lambda self, shard: schema(self, shard).remove_metadata())
    assert "documents with" in export(flat.output, "conll", tmp_path / "x")
    assert export(run.output, "conll", tmp_path / "y") == "export.other_words"


def test_other_sentences_are_refused(flat, tmp_path, monkeypatch):
    monkeypatch.setattr("pipelines.export.words.split_sentences", lambda text, *how: [(0, len(text))])
    assert export(flat.output, "conllu", tmp_path / "x") == "export.other_words"

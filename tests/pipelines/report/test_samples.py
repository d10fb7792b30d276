"""Example sentences of a report: drawn from the rows, read from the inputs, and left out where they cannot be."""

import json

import pytest

from pipelines.report import samples as module
from pipelines.report.samples import SENTENCES, sample_sentences
from tests.support.browsed_output import IDENTITY, add_shard, annotation, begin, document

TEXT = "Nobody came. {name} met Bob in York. They left."


@pytest.fixture
def corpus(tmp_path):
    """An output of three shards with ten documents each, its source, and the names of its shards."""
    begin(tmp_path / "out")
    source, offset, names = tmp_path / "in" / "a.jsonl", 0, []
    source.parent.mkdir()
    with open(source, "wb") as file:
        for number in range(3):
            rows, documents = [], []
            for place in range(10):
                name, key = f"Ann{number}{place}", f"d{number}-{place}"
                text = TEXT.format(name=name)
                line = json.dumps({"id": key, "text": text}).encode() + b"\n"
                file.write(line)
                documents.append(document(key, str(source), offset, len(text)))
                offset += len(line)
                for entity, (word, label) in enumerate([(name, "person"), ("Bob", "person"), ("York", "place")]):
                    start = text.index(word)
                    rows.append(annotation(key, start, start + len(word), word, label, sentence_id=1, entity_id=entity))
            names.append(add_shard(tmp_path / "out", "a", rows, documents, number=number, source=str(source)))
    return tmp_path / "out", source, names


def drawn(corpus, inputs=None):
    output, source, names = corpus
    return sample_sentences(str(output), names, [str(source)] if inputs is None else inputs, IDENTITY)


def test_sentences_are_whole_and_have_all_their_entities(corpus):
    found = drawn(corpus)
    assert found["missing"] == ""
    assert len(found["sentences"]) == SENTENCES
    assert len({each["document_id"] for each in found["sentences"]}) == SENTENCES
    assert len({each["document_id"][:2] for each in found["sentences"]}) == 3  # from every shard
    for each in found["sentences"]:
        assert each["text"].endswith("met Bob in York.")
        assert each["text"].startswith("Ann")
        assert [each["text"][m["start"] : m["end"]] for m in each["marks"]][1:] == ["Bob", "York"]
        assert [mark["label"] for mark in each["marks"]] == ["person", "person", "place"]
        assert {mark["score"] for mark in each["marks"]} == {0.9}


def test_the_same_rows_give_the_same_sentences_in_whatever_order_shards_are_listed(corpus):
    output, source, names = corpus
    assert drawn(corpus) == sample_sentences(str(output), names[::-1], [f"{source.parent}/*.jsonl"], IDENTITY)


def test_only_inputs_of_the_job_are_read(corpus, tmp_path):
    for inputs in ([], [str(tmp_path / "elsewhere" / "*")], [str(tmp_path / "in" / "b.jsonl")]):
        found = drawn(corpus, inputs)
        assert found["sentences"] == []
        assert found["missing"]


@pytest.mark.parametrize("change", ["gone", "changed"])
def test_without_the_source_there_are_no_examples(corpus, change):
    _, source, _ = corpus
    if change == "gone":
        source.unlink()
    else:
        source.write_bytes(source.read_bytes().replace(b"Bob", b"Rob"))
    found = drawn(corpus)
    assert found["sentences"] == []
    assert "source" in found["missing"]


def test_it_ends_when_the_time_is_over(corpus, monkeypatch):
    monkeypatch.setattr(module, "SECONDS", -1.0)
    assert drawn(corpus)["sentences"] == []


def test_few_rows_of_a_large_shard_are_looked_at(corpus, monkeypatch):
    monkeypatch.setattr(module, "_ROWS", 5)
    assert len(drawn(corpus)["sentences"]) == SENTENCES  # a row group is read whole


def test_a_long_sentence_is_cut_around_its_first_entity(tmp_path):
    begin(tmp_path / "out")
    text = "word " * 400 + "Ann " + "word " * 400
    source = tmp_path / "a.txt"
    source.write_text(text)
    start = text.index("Ann")
    rows = [annotation("a.txt", start, start + 3, "Ann")]
    name = add_shard(tmp_path / "out", "a", rows, [document("a.txt", str(source), 0, len(text))], source=str(source))
    (each,) = sample_sentences(str(tmp_path / "out"), [name], [str(source)], IDENTITY)["sentences"]
    assert len(each["text"]) <= 500
    assert each["cut_before"]
    assert each["cut_after"]
    assert set(each["text"].split()) == {"word", "Ann"}
    (mark,) = each["marks"]
    assert each["text"][mark["start"] : mark["end"]] == "Ann"


def test_nothing_found_is_nothing_to_show(tmp_path):
    begin(tmp_path)
    assert sample_sentences(str(tmp_path), [], ["/in"], IDENTITY)["missing"] == "no entities were found"

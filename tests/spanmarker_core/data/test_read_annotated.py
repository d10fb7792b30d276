import gzip
import json

import pytest
from datasets import Dataset, disable_progress_bars

from spanmarker_core.data import Sentence, Span, read_annotated
from spanmarker_core.errors import CoreError

disable_progress_bars()

SENTENCE = Sentence("doc-0", 0, ["Ada", "met"], [Span(0, 1, "PER")])


def write_all(folder):
    """Write one sentence in every form; returns (path, scheme) pairs."""
    record = {
        "document_id": "doc-0",
        "sentence_id": 0,
        "tokens": SENTENCE.words,
        "entities": [{"start": 0, "end": 1, "label": "PER"}],
    }
    (folder / "data.jsonl").write_text(json.dumps(record))
    Dataset.from_dict({"tokens": [SENTENCE.words], "ner_tags": [["S-PER", "O"]]}).save_to_disk(str(folder / "saved"))
    pairs = [(folder / "data.jsonl", None), (folder / "data.jsonl", "spans"), (folder / "saved", "BIOES")]
    for suffix in ("conll", "iob", "bio", "txt"):
        (folder / f"data.{suffix}").write_text("Ada B-PER\nmet O\n")
        pairs.append((folder / f"data.{suffix}", "IOB2"))
    return pairs


def test_every_form_gives_the_same_sentence(tmp_path):
    for path, scheme in write_all(tmp_path):
        assert list(read_annotated(path, scheme)) == [SENTENCE]
        assert list(read_annotated(str(path), scheme and scheme.lower())) == [SENTENCE]


@pytest.mark.parametrize(
    ("name", "scheme", "code"),
    [
        ("none.jsonl", None, "data.not_found"),
        ("data.csv", None, "data.unknown_format"),
        ("folder", "IOB2", "data.unknown_format"),
        ("data.conll", None, "data.scheme_needed"),
        ("data.conll", "spans", "call.unknown_option"),
        ("data.jsonl", "IOB2", "data.scheme_mismatch"),
    ],
)
def test_a_wrong_call_is_refused_before_reading(tmp_path, name, scheme, code):
    for file in ("data.csv", "data.conll", "data.jsonl"):
        (tmp_path / file).write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises(CoreError) as caught:
        read_annotated(tmp_path / name, scheme)
    assert caught.value.code == code


@pytest.mark.parametrize(("name", "scheme"), [("data.jsonl", None), ("data.conll", "IOB2")])
def test_no_sentences(tmp_path, name, scheme):
    (tmp_path / name).write_text("\n\n")
    with pytest.raises(CoreError) as caught:
        list(read_annotated(tmp_path / name, scheme))
    assert caught.value.code == "data.empty"


def test_compressed_sentences_keep_their_ids(tmp_path):
    line = b'{"document_id": "d", "sentence_id": 7, "tokens": ["Ada"], "entities": []}'
    (tmp_path / "a.jsonl").write_bytes(line)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(line))
    plain, packed = (list(read_annotated(tmp_path / name)) for name in ("a.jsonl", "b.jsonl.gz"))
    assert plain == packed == [Sentence("d", 7, ["Ada"], [])]

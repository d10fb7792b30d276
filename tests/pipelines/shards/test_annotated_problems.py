"""Annotated shards: problems of the data are reported, cost nothing else, or are refused."""

import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.errors import PipelineError
from pipelines.jobs.job_file import read_job
from pipelines.jobs.prepare_training import AnnotatedJob
from pipelines.jobs.tag import TagJob
from pipelines.runs.prepared_samples import find_prepared_samples
from pipelines.stages.align import GoldDocument, align
from pipelines.stages.pack import encode
from pipelines.stages.split import split
from pipelines.training_data.windows import PackedAs, PreparedWindows
from spanmarker_core.bundle.reader import read_info
from spanmarker_core.data import Sentence, Span
from spanmarker_core.default_model import bundled_model_path
from spanmarker_core.errors import CoreError
from spanmarker_core.text.sentences import split_sentences
from spanmarker_core.text.words import split_words
from spanmarker_core.training import TrainingSettings
from spanmarker_core.training.initialise import encoder_packer
from spanmarker_core.windows.packer import Context, Packer
from tests.support.annotated import LIMITS, TEXT, at, corpus, in_memory, record, spans_of, write_sentences
from tests.support.annotated import prepare_annotated as prepare
from tests.support.jobs import rows, write_jsonl
from tests.support.tiny import tiny_tokenizer
from tests.support.training import write_encoder

PLANTED = [
    (at("Barack Obama"), None),
    (at("Obama"), None),  # nested
    (at("Barack Obama", "work"), None),  # a second label
    (at("Barack Obama"), "duplicate"),
    ({"start": -3, "end": 6, "label": "person"}, "out_of_range"),
    ({"start": 6, "end": 6, "label": "person"}, "out_of_range"),
    ({"start": 0, "end": 9999, "label": "person"}, "out_of_range"),
    (at("Obama", start=20), "misaligned"),  # of Obamaesque
    (at(" Paris"), "misaligned"),
    (at("York, "), "misaligned"),
    (at("Paris. He"), "crosses_sentences"),
    (at("New York of it at"), "too_long"),
    (at("\u2063 city"), "no_tokens"),
]


def test_every_problem_of_characters_is_told_with_its_text(encoder, tmp_path):
    document = {"id": 7, "text": TEXT, "entities": [annotation for annotation, _ in PLANTED], "more": 1}
    write_jsonl(tmp_path / "a.jsonl", [document])
    said = prepare([tmp_path / "a.jsonl"], tmp_path / "out", encoder)
    assert "3 out_of_range, 3 misaligned, 1 crosses_sentences, 1 too_long, 1 no_tokens, 1 duplicate" in said
    found = {(row["start"], row["end"], row["code"]): row for row in rows(tmp_path / "out", "gold_problems")}
    planted = {(a["start"], a["end"], code) for a, code in PLANTED if code}
    assert found.keys() == planted
    for (start, end, code), row in found.items():
        assert row["text"] == TEXT[max(0, start) : end]
        assert (row["document_id"], row["unit"], row["source_row"]) == ("7", "characters", 0)
        assert row["source"] == str(tmp_path / "a.jsonl")
        assert (row["sentence_id"] is None) == (code == "out_of_range")
    assert "inside the word 'Obamaesque'" in found[(52, 57, "misaligned")]["message"]
    source_summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert source_summary["annotations"] == len(PLANTED) - 1
    assert source_summary["learned"] == 3
    assert source_summary["wrong_share"] == 6 / 12
    assert source_summary["problems"] == dict(Counter(code for _, code in PLANTED if code)) | {"too_many_tokens": 0}
    with pytest.raises(PipelineError) as caught:
        PreparedWindows(str(tmp_path / "out"))
    assert caught.value.code == "samples.misaligned"
    values = caught.value.values
    assert (values["wrong"], values["total"], values["share"], values["limit"]) == (6, 12, "50.00%", "1.00%")
    source = PreparedWindows(str(tmp_path / "out"), max_misaligned=0.5)
    assert [entity for *_, entities in spans_of(source) for entity in entities] == [
        (0, 2, "person"),
        (0, 2, "work"),
        (1, 2, "person"),
    ]
    assert source.labels == ["person", "work"]


def test_what_no_model_can_reach_is_told_and_not_refused(encoder, tmp_path):
    sentences = [
        Sentence("a", 3, ["the", "of"] * 4, [Span(0, 8, "work"), Span(0, 2, "work")]),
        Sentence("b", 0, ["disestablish"] * 6, [Span(2, 6, "work")]),
        Sentence("b", 1, ["\u2063", "paris"], [Span(0, 2, "location")]),
    ]
    write_sentences(tmp_path / "a.jsonl", sentences)
    prepare([tmp_path / "a.jsonl"], tmp_path / "out", encoder)
    found = {row["code"]: row for row in rows(tmp_path / "out", "gold_problems")}
    assert found.keys() == {"too_long", "too_many_tokens", "no_tokens"}
    assert found["too_long"]["message"] == "it has 8 words, but entity_max_length is 4"
    assert found["too_many_tokens"]["text"] == " ".join(["disestablish"] * 4)
    assert [found[code]["sentence_id"] for code in ("too_long", "too_many_tokens", "no_tokens")] == [3, 0, 1]
    source = PreparedWindows(str(tmp_path / "out"), max_misaligned=0)
    assert source.labels == ["location", "work"]
    assert source.gold.learned == 1


def codes(output) -> list[tuple]:
    return [(row["document_id"], row["source_row"], row["code"]) for row in rows(output, "rejects")]


def test_a_bad_record_costs_itself_alone(encoder, tmp_path):
    good = corpus(3)
    lines = [json.dumps(record(sentence)) for sentence in good]
    bad = [
        "{broken",
        json.dumps(record(good[-1]) | {"tokens": ["a", " "]}),
        json.dumps(record(Sentence("doc-2", 90, ["a"], [])) | {"entities": [{"start": 0.5, "end": 1, "label": "x"}]}),
        json.dumps(record(Sentence("doc-0", 90, ["back", "again"], []))),
        json.dumps(record(Sentence("doc-2", 1 << 31, ["high"], []))),
    ]
    last = Sentence("doc-2", 99, ["paris"], [Span(0, 1, "location")])
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join([*lines, *bad, json.dumps(record(last))]) + "\n")
    said = prepare([path], tmp_path / "out", encoder)
    assert "3 documents = 3 prepared + 0 empty + 0 rejected" in said
    assert "5 sentences or parts of files could not be read" in said
    assert Counter(code for *_, code in codes(tmp_path / "out")) == {"broken_json": 1, "bad_sentence": 4}
    with pytest.raises(PipelineError) as caught:
        PreparedWindows(str(tmp_path / "out"))
    assert caught.value.code == "samples.rejected"
    assert [caught.value.values[name] for name in ("rejected", "documents", "unreadable")] == [0, 3, 5]
    kept = PreparedWindows(str(tmp_path / "out"), max_misaligned=0.5)
    assert spans_of(kept) == spans_of(in_memory([*good, last], encoder))

    documents = [
        {"id": "a", "text": "Paris", "entities": [[0, 5, "location"]]},
        {"id": "b", "text": "Paris", "entities": [{"start": 0, "end": 5, "label": "O"}]},
        {"id": "c", "text": "Paris", "entities": [{"start": 0, "end": 1 << 70, "label": "location"}]},
        {"id": "d", "text": None, "entities": []},
        {"id": "a", "text": "again", "entities": []},
        {"id": "e", "text": " \u2063\n", "entities": [{"start": 0, "end": 1, "label": "location"}]},
        ["no", "object"],
        {"id": "f", "text": "no entities"},
        b"\xff",
    ]
    said = prepare([write_jsonl(tmp_path / "b.jsonl", documents)], tmp_path / "b", encoder)
    assert "9 documents = 1 prepared + 1 empty + 7 rejected" in said
    found = {(document, code) for document, _, code in codes(tmp_path / "b")}
    assert found == {
        *(("b", "bad_annotation"), ("c", "bad_annotation"), ("d", "null_text"), ("a", "duplicate_id")),
        *((None, code) for code in ("broken_json", "missing_field", "invalid_utf8")),
    }
    with pytest.raises(PipelineError) as caught:
        PreparedWindows(str(tmp_path / "b"))
    assert caught.value.code == "samples.rejected"
    assert (caught.value.values["rejected"], caught.value.values["documents"]) == (7, 9)
    summary = json.loads((tmp_path / "b" / "summary.json").read_text())
    assert (summary["documents"], summary["rejected"], summary["unreadable"]) == (9, 7, 0)
    (problem,) = rows(tmp_path / "b", "gold_problems")
    assert (problem["document_id"], problem["code"], problem["sentence_id"]) == ("e", "misaligned", None)

    (tmp_path / "c.conll").write_text("paris B-LOC\n\nobama I-PER\nof O\n\nthe\n\nlondon O\nof O x\n\nyork B-LOC\n")
    prepare([tmp_path / "c.conll"], tmp_path / "c", encoder, scheme="IOB2")
    assert sorted((place, code) for _, place, code in codes(tmp_path / "c")) == [
        (line, "bad_sentence") for line in (3, 6, 9)
    ]
    source = PreparedWindows(str(tmp_path / "c"), max_misaligned=0.6)
    assert source.names(np.arange(2)) == ["document doc-0, sentence 0", "document doc-4, sentence 0"]


def test_windows_for_another_model_are_refused(encoder, tmp_path):
    path = write_sentences(tmp_path / "a.jsonl", corpus(2))
    prepare([path], tmp_path / "out", encoder, context="document", max_next_context=2)
    source = PreparedWindows(str(tmp_path / "out"))
    context = Context("document", None, 2)
    assert source.packed_as == PackedAs(**LIMITS, splitter="words.v1", context=context)
    source.check(encoder_packer(encoder, TrainingSettings(**LIMITS)), context)
    other = write_encoder(tmp_path / "other", "roberta")
    for limits, shown, folder, line in (
        (LIMITS | {"max_tokens": 40}, context, encoder, "--max-tokens: 32 there, 40 here"),
        (LIMITS, Context("document"), encoder, "--max-next-context: 2 there, none here"),
        (LIMITS, context, other, "tokenizer: [0-9a-f]{12}… there, "),
    ):
        with pytest.raises(PipelineError, match=rf"samples.other_packing(.|\n)*  {line}"):
            source.check(encoder_packer(folder, TrainingSettings(**limits)), shown)
    with pytest.raises(PipelineError, match=r"samples.not_annotated"):
        PreparedWindows(str(tmp_path))
    with pytest.raises(PipelineError, match=r"samples.not_prepared"):
        find_prepared_samples(
            TagJob(samples=str(tmp_path / "out"), output=str(tmp_path / "x")), read_info(bundled_model_path())
        )


def test_inputs_that_are_no_annotated_data_are_refused(encoder, tmp_path):
    (tmp_path / "in").mkdir()
    write_jsonl(tmp_path / "in" / "none.jsonl", [{"id": 1, "text": "x"}])
    write_jsonl(tmp_path / "in" / "both.jsonl", [record(Sentence("a", 0, ["x"], [])) | {"text": "x"}])
    pq.write_table(pa.table({"id": [1.5], "text": ["x"], "entities": [[1]]}), tmp_path / "in" / "types.parquet")
    with pytest.raises(PipelineError, match=r"input.bad_annotated") as caught:
        prepare([tmp_path / "in" / "*"], tmp_path / "out", encoder)
    said = str(caught.value)
    assert "no 'entities'" in said
    assert "it has both of 'tokens' and 'text'" in said
    assert "'id' is double, 'entities' is list" in said
    (tmp_path / "in" / "a.doc").touch()
    with pytest.raises(PipelineError, match=r"input.not_annotated(.|\n)*a.doc"):
        prepare([tmp_path / "in" / "a.doc"], tmp_path / "out", encoder)
    (tmp_path / "a.conll").write_text("a O\n")
    with pytest.raises(CoreError, match=r"data.scheme_needed"):
        prepare([tmp_path / "a.conll"], tmp_path / "out", encoder)
    write_sentences(tmp_path / "spans.jsonl", corpus(1))
    with pytest.raises(CoreError, match=r"data.scheme_mismatch.*spans.jsonl") as mismatch:
        prepare([tmp_path / "spans.jsonl"], tmp_path / "out", encoder, scheme="IOB2")
    assert mismatch.value.values["holds"] == "spans"
    with pytest.raises(CoreError, match=r"encoder.window_too_long"):
        prepare([tmp_path / "a.conll"], tmp_path / "out", encoder, max_tokens=4000)
    with pytest.raises(PipelineError, match=r"job.invalid(.|\n)*encoder"):
        read_job(AnnotatedJob, None, {"input": ["x"], "output": "y"})


@settings(derandomize=True)
@given(st.data())
def test_ranges_of_characters_are_the_words_that_they_were_made_of(data):
    """In any text, an annotation that covers words is aligned with them; any other range is reported."""
    letters = st.text(st.sampled_from("ab. \n,é한😀\u2063\u0301-'9"), min_size=1, max_size=40)
    text = data.draw(letters)
    packer = Packer(tiny_tokenizer("bert"), prefix=[2], suffix=[3], unknown_id=1, splitter="words.v1", **LIMITS)
    inputs = pa.RecordBatch.from_pydict({"document_id": ["d"], "text": [text]})
    encoded = encode(split(inputs, "en"), packer)
    edges = st.integers(-2, len(text) + 2)
    drawn = data.draw(st.lists(st.tuples(edges, edges), max_size=8, unique=True))
    annotations = [Span(start, end, "x") for start, end in drawn]
    aligned = align([GoldDocument("d", "f", 0, text, annotations)], encoded, LIMITS["entity_max_length"])
    words = []
    for start, end in split_sentences(text, "en"):
        starts, ends = split_words(text[start:end])
        words.append(list(zip((starts + start).tolist(), (ends + start).tolist(), strict=True)))
    told = {(row["start"], row["end"]): row["code"] for row in aligned.problems}
    assert len(told) + len(aligned.gold) == len(annotations)
    for start, end in drawn:
        code = told.get((start, end))
        first = [n for n, sentence in enumerate(words) for word in sentence if word[0] == start]
        last = [n for n, sentence in enumerate(words) for word in sentence if word[1] == end]
        if not 0 <= start < end <= len(text):
            assert code == "out_of_range"
        elif not first or not last:
            assert code == "misaligned"
        elif first != last:
            assert code == "crosses_sentences"
        else:
            assert code in (None, "too_long", "no_tokens")
            covered = [text[a:b] for a, b in words[first[0]] if start <= a and b <= end]
            entity = next(
                entity
                for entity in aligned.sentences[first[0]].entities
                if aligned.sentences[first[0]].words[entity.start : entity.end] == covered
                and words[first[0]][entity.start][0] == start
            )
            assert (entity.end - entity.start > LIMITS["entity_max_length"]) == (code == "too_long")
    for gold in aligned.gold:
        flat = [word for sentence in words for word in sentence]
        assert (flat[gold.first][0], flat[gold.last][1]) == (gold.record["start"], gold.record["end"])

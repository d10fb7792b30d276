"""Annotated shards: what is in them is what training in memory would have made of the same data."""

import gzip
import io
import json
import pickle
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from pipelines.errors import PipelineError
from pipelines.jobs.base import read_job
from pipelines.jobs.prepare_training import AnnotatedJob
from pipelines.jobs.tag import TagJob
from pipelines.output.layout import TRAINING_TABLES
from pipelines.output.manifest import identity_digest, make_folders, read_entries
from pipelines.runs.planned_training_data import PlannedTrainingData
from pipelines.runs.prepared_samples import find_prepared_samples
from pipelines.runs.run import run_job
from pipelines.stages.align import GoldDocument, align
from pipelines.stages.pack import encode
from pipelines.stages.split import split
from pipelines.training_data.windows import PackedAs, PreparedWindows
from spanmarker_core.bundle.reader import read_info
from spanmarker_core.data import Sentence, Span, read_annotated
from spanmarker_core.data.summary import summarise
from spanmarker_core.default_model import bundled_model_path
from spanmarker_core.errors import CoreError
from spanmarker_core.evaluation.scores.reach import largest_flat_subset
from spanmarker_core.formats.document import AnnotatedDocument, AnnotatedEntity
from spanmarker_core.formats.options import WriteOptions
from spanmarker_core.formats.registry import FORMATS, write_documents
from spanmarker_core.spans.candidates import candidate_spans
from spanmarker_core.text.sentences import split_sentences
from spanmarker_core.text.tag_schemes import spans_to_tags
from spanmarker_core.text.words import split_words
from spanmarker_core.training import TrainingSettings
from spanmarker_core.training.dataset import SentenceWindows, TrainingWindows
from spanmarker_core.training.initialise import encoder_packer
from spanmarker_core.windows.packer import Context, Packer
from tests.spanmarker_core.training.test_training import write_encoder
from tests.support.jobs import rows, write_jsonl
from tests.support.tiny import tiny_tokenizer

LIMITS = {"max_tokens": 32, "entity_max_length": 4}


@pytest.fixture(scope="session")
def encoder(tmp_path_factory):
    return write_encoder(tmp_path_factory.mktemp("encoder") / "bert", "bert")


def prepare(inputs, output, encoder, **options) -> str:
    """Run a job with the inline engine; return what it printed."""
    console = Console(file=io.StringIO(), width=200)
    values = {"engine": "inline", **LIMITS, **options}
    run_job(AnnotatedJob(input=list(map(str, inputs)), output=str(output), encoder=str(encoder), **values), console)
    return console.file.getvalue()


def corpus(n_documents=20) -> list[Sentence]:
    """Sentences with nested, crossing, long and twice-labelled entities, words without tokens, long sentences."""
    random = np.random.default_rng(5)
    vocabulary = np.array(["paris", "obama", "the", "of", "zürich", "xyzzy", "\u2063", "disestablish", "a" * 40])
    made = []
    for document in range(n_documents):
        for number in range(int(random.integers(1, 6))):
            n_words = int(random.integers(1, 9) if random.random() < 0.8 else random.integers(30, 60))
            words = random.choice(vocabulary, n_words).tolist()
            starts = random.integers(0, n_words, random.integers(0, 6))
            lengths = random.choice([1, 1, 2, 3, 4, 7], len(starts))
            labels = random.choice(["person", "location", "work"], len(starts))
            found = {
                Span(int(start), min(n_words, int(start + length)), str(label))
                for start, length, label in zip(starts, lengths, labels, strict=True)
            }
            made.append(Sentence(f"doc-{document}", number * 2, words, sorted(found)))
    return made


def write_sentences(path, sentences, extra=()):
    lines = [json.dumps(record(sentence), ensure_ascii=False) for sentence in sentences]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in [*lines, *extra]), encoding="utf-8")
    return path


def record(sentence: Sentence) -> dict:
    entities = [{"start": entity.start, "end": entity.end, "label": entity.label} for entity in sentence.entities]
    ids = {"document_id": sentence.document_id, "sentence_id": sentence.sentence_id}
    return {**ids, "tokens": sentence.words, "entities": entities}


def spans_of(source: TrainingWindows, entity_max_length=LIMITS["entity_max_length"]) -> list[tuple]:
    """What training sees of each window: its tokens, words and candidate spans with their labels, in order."""
    seen = []
    for pool in range(len(source.pool_offsets) - 1):
        windows, gold = source.read(pool)
        assert len(windows) == source.pool_offsets[pool + 1] - source.pool_offsets[pool]
        assert (np.diff(gold.window) >= 0).all()
        spans = candidate_spans(windows, entity_max_length)
        for number in range(len(windows)):
            window = windows.take(np.array([number]))
            words = [
                getattr(window, name).tolist() for name in window.__slots__ if name not in ("document", "word_sentence")
            ]
            breaks = np.flatnonzero(np.diff(window.word_sentence)).tolist()
            mine = gold.window == number
            entities = zip(
                gold.word_start[mine].tolist(), gold.word_end[mine].tolist(), gold.label[mine].tolist(), strict=True
            )
            here = slice(spans.offsets[number], spans.offsets[number + 1])
            at = windows.word_offsets[number]
            ends = zip((spans.first_word[here] - at).tolist(), (spans.last_word[here] + 1 - at).tolist(), strict=True)
            entities = [(start, end, source.labels[label]) for start, end, label in entities]
            assert {entity[:2] for entity in entities} <= set(ends)
            seen.append((words, breaks, entities))
    assert [len(words[1]) for words, *_ in seen] == source.n_tokens.tolist()
    return seen


def in_memory(sentences, encoder, context=None) -> SentenceWindows:
    context = context or Context()
    packer = encoder_packer(encoder, TrainingSettings(**LIMITS, context=context))
    return SentenceWindows(sentences, packer, context)


@pytest.mark.parametrize("policy", ["sentence", "document", "block"])
def test_shards_hold_what_memory_would(policy, encoder, tmp_path):
    sentences = corpus()
    write_sentences(tmp_path / "a.jsonl", sentences)
    prepare([tmp_path / "a.jsonl"], tmp_path / "out", encoder, context=policy, max_shard_bytes=3000)
    source, expected = PreparedWindows(str(tmp_path / "out")), in_memory(sentences, encoder, Context(policy))
    assert isinstance(source, TrainingWindows)
    assert len(source.pool_offsets) > 5
    assert spans_of(source) == spans_of(expected)
    assert source.n_candidates.tolist() == expected.n_candidates.tolist()
    assert source.labels == expected.labels
    assert source.summary == expected.summary == summarise(read_annotated(tmp_path / "a.jsonl"))
    everything = np.arange(len(source.n_tokens))
    assert source.names(everything[::-1]) == expected.names(everything[::-1])
    assert source.gold.learned == len(expected.read(0)[1].window)
    counts = dict(source.gold.problems)
    assert min(counts[code] for code in ("too_long", "no_tokens", "too_many_tokens")) > 0
    assert sum(counts.values()) == counts["too_long"] + counts["no_tokens"] + counts["too_many_tokens"]
    assert expected.unreachable == counts["no_tokens"] + counts["too_many_tokens"]


def tagged(sentences) -> list[Sentence]:
    """The same sentences with the entities that tags can hold."""
    return [replace(sentence, entities=largest_flat_subset(sentence.entities)) for sentence in sentences]


def write_conll(path, sentences):
    lines = []
    for document, members in groupby(sentences, key=lambda sentence: sentence.document_id):
        lines += ["-DOCSTART- O", "", f"# id {document}"]
        for sentence in members:
            tags = spans_to_tags(sentence.entities, len(sentence.words), "IOB2")
            lines += [f"{word} {tag}" for word, tag in zip(sentence.words, tags, strict=True)] + [""]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_every_format_gives_the_same(encoder, tmp_path):
    from datasets import Dataset

    sentences = tagged(corpus(6))
    records = [record(sentence) for sentence in sentences]
    inputs = {
        "jsonl": write_sentences(tmp_path / "a.jsonl", sentences),
        "gz": tmp_path / "a.jsonl.gz",
        "parquet": tmp_path / "a.parquet",
        "conll": write_conll(tmp_path / "a.conll", sentences),
        "dataset": tmp_path / "dataset",
    }
    inputs["gz"].write_bytes(gzip.compress(inputs["jsonl"].read_bytes()))
    pq.write_table(pa.Table.from_pylist(records), inputs["parquet"], row_group_size=7)
    Dataset.from_list(records).save_to_disk(str(inputs["dataset"]))
    expected = spans_of(in_memory(sentences, encoder))
    for kind, path in inputs.items():
        scheme = "IOB2" if kind == "conll" else None
        prepare([path], tmp_path / f"{kind}-out", encoder, scheme=scheme, max_shard_bytes=600)
        source = PreparedWindows(str(tmp_path / f"{kind}-out"))
        assert spans_of(source) == expected, kind
        assert source.summary == summarise(sentences)
    for kind in ("jsonl", "parquet"):  # no document is parted
        shards = list((tmp_path / f"{kind}-out" / "documents").glob("*.parquet"))
        parts = [pq.read_table(shard)["document_id"].to_pylist() for shard in shards]
        assert len(parts) > 2
        assert sorted(document for part in parts for document in part) == sorted(f"doc-{n}" for n in range(6))


TEXT = "Barack Obama was in Paris. He flew to New York, the Obamaesque \u2063 city of the New York of it at London."


def at(surface: str, label="person", start=0) -> dict:
    start = TEXT.index(surface, start)
    return {"start": start, "end": start + len(surface), "label": label}


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
    assert found["too_long"]["message"] == "it has 8 words, and entity_max_length is 4"
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
        {"id": "a", "text": "Paris", "entities": [{"start": 0, "end": 5, "label": "location"}]},
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
    assert [(place, code) for _, place, code in codes(tmp_path / "c")] == [(line, "bad_sentence") for line in (3, 6, 9)]
    source = PreparedWindows(str(tmp_path / "c"), max_misaligned=0.6)
    assert source.names(np.arange(2)) == ["document doc-0, sentence 0", "document doc-4, sentence 0"]


def test_again_does_what_changed_and_refuses_other_settings(encoder, tmp_path):
    path = write_sentences(tmp_path / "in" / "a.jsonl", corpus(12))
    out, options = tmp_path / "out", {"max_shard_bytes": 1500}
    prepare([path], out, encoder, **options)
    before = PreparedWindows(str(out)).digest
    assert "Nothing to do" in prepare([path], out, encoder, **options)
    next((out / "annotated_samples").glob("*.arrow")).unlink()
    with pytest.raises(PipelineError) as caught:
        PreparedWindows(str(out))
    assert (caught.value.code, caught.value.values["left"]) == ("samples.not_ready", 1)
    assert caught.value.values["total"] > 1
    assert "1 output lost or damaged" in prepare([path], out, encoder, **options)
    assert PreparedWindows(str(out)).digest == before
    with path.open("a") as file:
        file.write(json.dumps(record(Sentence("doc-99", 0, ["paris"], [Span(0, 1, "location")]))) + "\n")
    assert "1 content changed" in prepare([path], out, encoder, **options)
    after = PreparedWindows(str(out))
    assert after.digest != before
    assert after.names(np.array([len(after.n_tokens) - 1])) == ["document doc-99, sentence 0"]
    for changed, line in (
        ({"entity_max_length": 5}, "entity_max_length: there '4', here '5'"),
        ({"context": "document", "max_prev_context": 1}, "max_prev_context: there 'None', here '1'"),
        ({"language": "de"}, "language: there 'en', here 'de'"),
    ):
        with pytest.raises(PipelineError, match=rf"output.other_job(.|\n)*{line}"):
            prepare([path], out, encoder, **options, **changed)


def test_a_scheme_is_one_by_all_its_names_and_for_those_files_that_hold_tags(encoder, tmp_path):
    (tmp_path / "a.conll").write_text("paris I-location\n")
    spans = write_sentences(tmp_path / "b.jsonl", corpus(1))
    out = tmp_path / "out"
    assert "2 shards" in prepare([tmp_path / "a.conll", spans], out, encoder, scheme="IOB1")
    assert "Nothing to do" in prepare([tmp_path / "a.conll", spans], out, encoder, scheme="iob")


def test_windows_for_another_model_are_refused(encoder, tmp_path):
    path = write_sentences(tmp_path / "a.jsonl", corpus(2))
    prepare([path], tmp_path / "out", encoder, context="document", max_next_context=2)
    source = PreparedWindows(str(tmp_path / "out"))
    context = Context("document", None, 2)
    assert source.packed_as == PackedAs(**LIMITS, splitter="words.v1", context=context)
    source.check(encoder_packer(encoder, TrainingSettings(**LIMITS)), context)
    other = write_encoder(tmp_path / "other", "roberta")
    for limits, shown, folder, line in (
        (LIMITS | {"max_tokens": 40}, context, encoder, "max_tokens: there '32', here '40'"),
        (LIMITS, Context("document"), encoder, "max_next_context: there '2', here 'None'"),
        (LIMITS, context, other, "tokenizer: there '"),
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
    assert "no 'entities'; it has id, text" in said
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


def test_a_worker_that_prepares_has_no_torch_and_no_transformers(encoder, tmp_path):
    path = write_sentences(tmp_path / "a.jsonl", corpus(4))
    prepare([path], tmp_path / "out", encoder)
    program = """
import sys
from dataclasses import replace
from pipelines.processes.thread_limits import prepare_process
from pipelines.shards.worker import attempt, facts
import pickle
task, shards = pickle.load(open(sys.argv[1], "rb"))
prepare_process(1)
facts(task)
for shard in shards:
    outcome = attempt(shard, task)
    assert outcome.kind == "done", outcome
    print(outcome.value.counts["windows"])
assert not {"torch", "transformers", "datasets"} & set(sys.modules)
"""
    job = AnnotatedJob(input=[str(path)], output=str(tmp_path / "new"), encoder=str(encoder), **LIMITS)
    work = PlannedTrainingData(job)
    make_folders(job.output, TRAINING_TABLES)
    work.begin(job.output)
    digest = identity_digest(work.identity)
    assert len(pickle.dumps(work.task(digest))) < 10_000
    (tmp_path / "task").write_bytes(pickle.dumps((work.task(digest), list(work.shards(job.output, digest)))))
    run = subprocess.run([sys.executable, "-c", program, str(tmp_path / "task")], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    (entry,) = read_entries(str(tmp_path / "out"))
    assert run.stdout.split() == [str(entry.counts["windows"])]


@settings(derandomize=True)
@given(st.data())
def test_ranges_of_characters_are_the_words_that_they_were_made_of(data):
    """Whatever the text, an annotation over words comes back as those words, and any other range is told as such."""
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


@pytest.mark.slow
def test_every_engine_writes_the_same(encoder, tmp_path):
    write_sentences(tmp_path / "a.jsonl", corpus(12))
    document = {"id": "d", "text": TEXT, "entities": [at("Barack Obama"), at("Obama", start=20)]}
    write_jsonl(tmp_path / "b.jsonl", [document])
    found = {}
    for engine in ("inline", "local", "dask", "beam"):
        said = prepare([tmp_path / "*.jsonl"], tmp_path / engine, encoder, engine=engine, max_shard_bytes=2000)
        assert "13 documents = 13 prepared" in said
        files = sorted((tmp_path / engine).glob("*/*.arrow")) + sorted((tmp_path / engine).glob("gold_problems/*"))
        found[engine] = {str(file.relative_to(tmp_path / engine)): file.read_bytes() for file in files}
    assert len(found["inline"]) > 6
    assert all(files == found["inline"] for files in found.values())


def test_samples_in_a_store(encoder, root, tmp_path):
    path = write_sentences(tmp_path / "a.jsonl", corpus(3))
    prepare([path], f"{root}/out", encoder, context="document")
    expected = in_memory(corpus(3), encoder, Context("document"))
    assert spans_of(PreparedWindows(f"{root}/out")) == spans_of(expected)


FOREIGN = [name for name, each in FORMATS.items() if each.writer and name not in ("conll", "datasets", "sentences")]


@pytest.mark.parametrize("name", FOREIGN)
def test_formats_of_other_tools_give_the_same(name, encoder, tmp_path):
    documents = [
        AnnotatedDocument("a/b", "obama of paris", None, [AnnotatedEntity(0, 5, "PER"), AnnotatedEntity(9, 14, "LOC")]),
        AnnotatedDocument("c", "😀 zürich the\r\n paris", None, [AnnotatedEntity(2, 8, "LOC")]),
    ]
    (tmp_path / "in").mkdir()
    form = FORMATS[name]
    opened = (lambda path: (tmp_path / "in" / path).open("wb")) if form.folder else None
    target = opened or (tmp_path / "in" / f"x{form.endings[0]}").open("wb")
    write_documents(documents, name, target, WriteOptions())
    if opened is None:
        target.close()
    lines = [
        {"id": each.document_id, "text": each.text, "entities": [entity_record(entity) for entity in each.entities]}
        for each in documents
    ]
    write_jsonl(tmp_path / "expected.jsonl", lines)
    prepare([tmp_path / "expected.jsonl"], tmp_path / "expected", encoder)
    told = prepare([tmp_path / "in" / "*"], tmp_path / "out", encoder, scheme="IOB2" if name == "conllu" else None)
    assert "2 documents" in told
    found, expected = PreparedWindows(str(tmp_path / "out")), PreparedWindows(str(tmp_path / "expected"))
    assert sorted(spans_of(found)) == sorted(spans_of(expected))
    assert found.gold == expected.gold
    ids = {row["document_id"] for row in rows(tmp_path / "out", "documents")}
    assert ids == ({"x-0", "x-1"} if name == "gliner" else {"a/b", "c"})


def entity_record(entity):
    return {"start": entity.char_start, "end": entity.char_end, "label": entity.label}


def test_bad_records_and_files_of_other_tools_cost_themselves_alone(encoder, tmp_path):
    lines = [
        {"text": "obama", "label": [[0, 5, "PER"]]},
        {"text": "paris", "label": [[0, 9, "LOC"]]},
        {"text": "the", "label": []},
    ]
    (tmp_path / "in").mkdir()
    write_jsonl(tmp_path / "in" / "doccano.jsonl", lines)
    (tmp_path / "in" / "broken.spacy").write_bytes(b"no such file")
    (tmp_path / "in" / "x.ann").write_text("T1\tPER 0 99\tobama\n")
    (tmp_path / "in" / "x.txt").write_text("obama")
    (tmp_path / "in" / "tags.jsonl").write_text(json.dumps({"tokens": ["paris"], "ner_tags": ["S-LOC"]}))
    with pytest.raises(CoreError) as caught:
        prepare([tmp_path / "in" / "*"], tmp_path / "out", encoder)
    assert caught.value.code == "data.scheme_needed"
    prepare([tmp_path / "in" / "*"], tmp_path / "out", encoder, scheme="BIOES")
    prepared = [row["document_id"] for row in rows(tmp_path / "out", "documents") if row["status"] == "prepared"]
    assert sorted(prepared) == ["doccano-0", "doccano-2", "tags-0"]
    codes = sorted((row["source"].rpartition("/")[2], row["code"]) for row in rows(tmp_path / "out", "rejects"))
    assert codes == [("broken.spacy", "damaged_file"), ("doccano.jsonl", "bad_annotation"), ("x.ann", "bad_annotation")]


def test_columns_of_conll_are_part_of_the_job(encoder, tmp_path):
    (tmp_path / "a.conll").write_text("x\tparis\tB-LOC\tO\n")
    columns = {"token_column": 1, "tag_column": "2"}
    prepare([tmp_path / "a.conll"], tmp_path / "out", encoder, scheme="BIO", **columns)
    assert PreparedWindows(str(tmp_path / "out")).labels == ["LOC"]
    identity = json.loads((tmp_path / "out" / "job.json").read_text())
    assert (identity["token_column"], identity["tag_column"]) == ("1", "2")
    with pytest.raises(PipelineError) as caught:
        prepare([tmp_path / "a.conll"], tmp_path / "out", encoder, scheme="BIO", token_column=1)
    assert caught.value.code == "output.other_job"

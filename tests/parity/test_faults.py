"""Where the span_marker library is wrong, be right: each fault of golden/faults.json, and what we give."""

import json
from pathlib import Path

import pytest

from spanmarker_core import load
from spanmarker_core.data import Span
from spanmarker_core.evaluation.scores.metrics import SpanScorer
from spanmarker_core.integrations.span_marker import import_span_marker
from spanmarker_core.spans.candidates import candidate_spans
from spanmarker_core.text.tag_schemes import tags_to_spans
from spanmarker_core.windows.packer import Context

GOLDEN = Path(__file__).parent / "golden"
FAULTS = {fault["name"]: fault for fault in json.loads((GOLDEN / "faults.json").read_text(encoding="utf-8"))["faults"]}


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = tmp_path_factory.mktemp("imported") / "bert"
    import_span_marker(GOLDEN / "bert", folder)
    return load(folder)


def spans_of(model, words):
    windows = model.packer.pack(model.packer.encode_words([words]), Context())
    spans = candidate_spans(windows, model.config.entity_max_length)
    columns = (spans.first_word, spans.last_word + 1, spans.first_token, spans.last_token)
    return [list(row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def test_a_word_without_tokens_is_no_edge_of_a_span(bert):
    fault = FAULTS["zero_subtoken_word"]
    assert any(first > last for _, _, first, last in fault["library"]["spans"])
    assert spans_of(bert, fault["input"]) == fault["right"]["spans"]


def test_a_last_word_without_tokens_is_still_a_word(bert):
    fault = FAULTS["last_word_without_tokens"]
    encoded = bert.packer.encode_words([fault["input"]])[0]
    assert len(encoded.word_token_start) == fault["right"]["word_count"] != fault["library"]["word_count"]


def test_nothing_is_truncated(bert):
    fault = FAULTS["truncation"]
    found = bert.tag_words([fault["input"]], threshold=0.0, decoder="all.v1")[0]
    assert max(entity.word_end for entity in found) == fault["right"]["words_seen"] > fault["library"]["words_seen"]


def test_unreachable_gold_counts_as_missed():
    fault = FAULTS["dropped_gold"]
    scorer = SpanScorer(entity_max_length=5)
    for sentence in fault["input"]:
        gold = [Span(e["start"], e["end"], e["label"]) for e in sentence["entities"]]
        scorer.add(gold, [span for span in gold if span.end - span.start <= 5 and span.end <= 48])
    micro = scorer.result().micro
    right = fault["right"]
    assert (micro.support, micro.correct, micro.recall) == (right["gold"], right["found"], right["recall"])
    assert micro.f1 == pytest.approx(right["f1"])
    assert micro.recall < fault["library"]["recall"]


def test_iob1_ends_an_entity_where_the_type_changes():
    fault = FAULTS["iob1"]
    right = [Span(e["start"], e["end"], e["label"]) for e in fault["right"]["entities"]]
    assert tags_to_spans(fault["input"], "IOB1") == right
    assert len(right) > len(fault["library"]["entities"])

"""Nested and flat, BL-NER's attributes, seen and unseen forms."""

import pytest
from hypothesis import given

from spanmarker_core.data import Sentence
from spanmarker_core.evaluation.scores.attributes import ATTRIBUTES, TrainingForms
from spanmarker_core.evaluation.scores.structure import structures
from spanmarker_core.text.tag_schemes import Span
from tests.spanmarker_core.evaluation.drawn import SETS


def inside(inner, outer):
    return (inner.start, inner.end) != (outer.start, outer.end) and outer.start <= inner.start <= inner.end <= outer.end


@given(SETS, SETS)
def test_structures_by_the_words_of_the_figure(spans, gold):
    """DSpERT, Figure 3, word for word over all pairs."""
    for span, group in structures(spans, gold).items():
        nested = any(inside(span, outer) and any(inside(other, outer) for other in gold) for outer in gold)
        covering = any(inside(inner, span) and any(inside(inner, other) for other in gold) for inner in gold)
        assert group == {(0, 0): "flat", (1, 0): "nested", (0, 1): "covering", (1, 1): "both"}[nested, covering]


def test_a_chain_has_nested_both_and_covering():
    gold = [Span(0, 5, "ORG"), Span(0, 3, "ORG"), Span(0, 1, "LOC"), Span(7, 8, "PER")]
    assert structures(gold, gold) == dict(zip(gold, ("covering", "both", "nested", "flat"), strict=True))


def test_crossing_entities_and_two_labels_of_one_span_are_flat():
    gold = [Span(0, 3, "ORG"), Span(2, 5, "LOC"), Span(6, 7, "PER"), Span(6, 7, "ORG")]
    assert set(structures(gold, gold).values()) == {"flat"}


@pytest.mark.parametrize(
    ("name", "values"),
    [  # Table 5 of BL-NER, an inner and an outer value of each bucket
        ("eLen", [(1, 1), (2, 2), (3, 4), (5, 99)]),
        ("tLen", [(1, 7), (8, 16), (17, 31), (32, 9999)]),
        ("eCon", [(0, 0.1), (0.11, 0.5), (0.51, 0.9), (0.91, 1)]),
        ("eDen", [(0, 0.01), (0.011, 0.025), (0.026, 0.05), (0.051, 1)]),
    ],
)
def test_buckets_are_the_papers(name, values):
    buckets = [[ATTRIBUTES[name].bucket(value) for value in pair] for pair in values]
    assert buckets == [[0, 0], [1, 1], [2, 2], [3, 3]]


def test_intervals_are_told():
    assert ATTRIBUTES["tLen"].intervals() == ["1–7", "8–16", "17–31", "32+"]
    assert ATTRIBUTES["eCon"].intervals() == ["0–0.1", ">0.1–0.5", ">0.5–0.9", ">0.9"]
    assert ATTRIBUTES["oDen"].intervals() == ["0", ">0–0.1", ">0.1–0.25", ">0.25"]


def test_what_training_has():
    training = [
        Sentence("a", 0, ["Paris", "in", "Texas"], [Span(0, 1, "LOC"), Span(0, 3, "LOC")]),
        Sentence("a", 1, ["Paris", "Hilton"], [Span(0, 1, "PER"), Span(0, 2, "PER")]),
        Sentence("b", 0, ["Paris", "won"], [Span(0, 1, "LOC")]),
    ]
    forms = TrainingForms.of(training)
    assert forms.consistency("Paris", "LOC") == pytest.approx(2 / 3)
    assert forms.consistency("Paris", "PER") == pytest.approx(1 / 3)
    assert forms.consistency("Paris", "ORG") == 0
    assert forms.consistency("Texas", "LOC") == 0  # a word of training, but no entity
    assert [forms.seen("Paris Hilton", label) for label in ("PER", "LOC")] == ["seen", "other_label"]
    assert forms.seen("paris", "LOC") == "unseen"  # case counts
    assert forms.unknown(["Paris", "paris", "in", "in", "Rome"]) == 2
    assert forms.sentences == 3

"""Cross-checks against the packages whose conventions they take."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nervaluate import Evaluator
from seqeval.metrics import classification_report
from seqeval.scheme import IOB2

from spanmarker_core.evaluation.scores.metrics import SpanScorer
from spanmarker_core.evaluation.scores.overlaps import outermost
from spanmarker_core.evaluation.scores.partial_matches import SCHEMAS, SemEval, _most_pairs, align, as_tags
from spanmarker_core.text.tag_schemes import Span, spans_to_tags
from tests.spanmarker_core.evaluation.drawn import LABELS, N_WORDS, SETS

#: Slots of six words, each with at most one gold entity and one prediction: so the pairs leave nothing to choose.
SLOT = 6
entity = st.none() | st.tuples(st.integers(0, 4), st.integers(1, 3), st.sampled_from(LABELS))
slots = st.lists(st.tuples(entity, entity), max_size=5)


def spans_of(slots, side):
    return [
        Span(SLOT * place + slot[side][0], min(SLOT * place + slot[side][0] + slot[side][1], SLOT * (place + 1)), label)
        for place, slot in enumerate(slots)
        if slot[side]
        for label in [slot[side][2]]
    ]


def as_nervaluate(spans):
    return [{"label": span.label, "start": span.start, "end": span.end - 1} for span in spans]


@given(st.lists(slots, min_size=1, max_size=3))
def test_semeval_is_nervaluates(drawn):
    ours = SemEval()
    gold, predicted = ([spans_of(slots, side) for slots in drawn] for side in (0, 1))
    for pair in zip(gold, predicted, strict=True):
        ours.add(*pair)
    sides = [[as_nervaluate(spans) for spans in side] for side in (gold, predicted)]
    theirs = Evaluator(*sides, tags=list(LABELS), loader="dict").evaluate()["overall"]
    for schema, scores in ours.to_json().items():
        expected = theirs["ent_type" if schema == "type" else schema]
        for name in ("correct", "incorrect", "partial", "missed", "spurious", "possible", "actual"):
            assert scores[name] == getattr(expected, name), (schema, name)
        for name in ("precision", "recall", "f1"):
            assert scores[name] == pytest.approx(getattr(expected, name)), (schema, name)


def test_semeval_by_hand():
    """The five cases of SemEval-2013 task 9.1 in a row: right, missed, spurious, words, label."""
    counter = SemEval()
    counter.add(
        [Span(0, 2, "Drug"), Span(3, 4, "Drug"), Span(8, 10, "Drug"), Span(12, 13, "Drug")],
        [Span(0, 2, "Drug"), Span(5, 6, "Drug"), Span(9, 10, "Drug"), Span(12, 13, "Brand")],
    )
    f1 = {schema: scores["f1"] for schema, scores in counter.to_json().items()}
    assert f1 == {"strict": 1 / 4, "exact": 2 / 4, "partial": 2.5 / 4, "type": 2 / 4}


@given(SETS, SETS)
def test_each_is_in_one_pair(gold, predicted):
    pairs = align(gold, predicted)
    assert sorted(wanted for wanted, _ in pairs if wanted) == sorted(gold)
    assert sorted(found for _, found in pairs if found) == sorted(predicted)
    for wanted, found in pairs:
        if wanted and found:
            assert wanted.start < found.end
            assert found.start < wanted.end
    counter = SemEval()
    counter.add(gold, predicted)
    values = counter.to_json()
    for schema in SCHEMAS:
        assert values[schema]["possible"] == len(gold)
        assert values[schema]["actual"] == len(predicted)
    assert values["strict"]["correct"] == len(gold & predicted)
    assert values["strict"]["f1"] <= values["exact"]["f1"] <= values["partial"]["f1"]
    assert values["strict"]["f1"] <= values["type"]["f1"]


@given(SETS, SETS)
def test_there_are_as_many_pairs_and_then_equal_labels_as_there_can_be(gold, predicted):
    gold, predicted = sorted(gold)[:4], sorted(predicted)[:4]
    padded = [*predicted, *[None] * len(gold)]

    def value(pairs):
        near = [(span, other) for span, other in pairs if other and span.start < other.end and other.start < span.end]
        return len(near), sum(span.label == other.label for span, other in near)

    best = max(value(zip(gold, order, strict=False)) for order in permutations(padded, len(gold)))
    found = _most_pairs(gold, predicted)
    assert value(found.items()) == best
    assert len(set(found.values())) == len(found) == best[0]


def test_a_pair_is_given_up_for_two():
    """Taking the first that overlaps would leave the second gold entity without a partner."""
    gold = [Span(0, 3, "PER"), Span(3, 5, "PER")]
    predicted = [Span(2, 4, "PER"), Span(0, 1, "PER")]
    assert dict(align(gold, predicted)) == {gold[0]: predicted[1], gold[1]: predicted[0]}


def test_a_choice_of_pairs_with_more_equal_labels_wins():
    """First matching labels and then the rest would pair only different ones: the middle would take the second."""
    gold = [Span(1, 3, "PER"), Span(2, 5, "LOC"), Span(3, 7, "PER")]
    predicted = [Span(0, 2, "LOC"), Span(2, 5, "PER")]
    assert _most_pairs(gold, predicted) == {gold[0]: predicted[0], gold[2]: predicted[1]}


@given(st.lists(st.tuples(SETS, SETS), min_size=1, max_size=4))
def test_strict_is_seqevals_on_what_tags_hold(drawn):
    scorer = SpanScorer()
    sides = [[], []]
    for pair in drawn:
        flat = as_tags(*pair)
        scorer.add(*flat)
        for side, spans in zip(sides, flat, strict=True):
            side.append(spans_to_tags(spans, N_WORDS, "IOB2"))
    if not any(tag != "O" for side in sides for tags in side for tag in tags):
        return  # seqeval divides by the labels
    theirs = classification_report(*sides, mode="strict", scheme=IOB2, output_dict=True, zero_division=0)
    for name, scores in (("micro avg", scorer.result().micro), ("macro avg", scorer.result().macro)):
        expected = (theirs[name]["precision"], theirs[name]["recall"], theirs[name]["f1-score"])
        assert (scores.precision, scores.recall, scores.f1) == pytest.approx(expected)


@given(SETS)
def test_outermost_is_flat_and_leaves_out_only_what_overlaps(spans):
    kept = outermost(spans)
    words = [word for span in kept for word in range(span.start, span.end)]
    assert len(words) == len(set(words))
    for span in set(spans) - set(kept):
        longer = [each for each in kept if each.start < span.end and span.start < each.end]
        assert any(each.end - each.start >= span.end - span.start for each in longer)

import math
import subprocess
import sys
from dataclasses import fields
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import classification_report
from seqeval.scheme import IOB2

from spanmarker_core.evaluation.scores.metrics import EvaluationResult, Scores, SpanScorer
from spanmarker_core.text.tag_schemes import Span, spans_to_tags
from tests.spanmarker_core.evaluation.drawn import LABELS, N_WORDS, SPANS

any_spans = st.lists(SPANS, max_size=8)
pairs = st.lists(st.tuples(any_spans, any_spans), max_size=6)


@st.composite
def flat_spans(draw):
    edges = sorted(draw(st.sets(st.integers(0, N_WORDS), max_size=N_WORDS)))
    return [
        Span(start, end, label) for start, end in pairwise(edges) if (label := draw(st.sampled_from((*LABELS, None))))
    ]


def score(pairs, entity_max_length=None) -> EvaluationResult:
    scorer = SpanScorer(entity_max_length)
    for gold, predicted in pairs:
        scorer.add(gold, predicted)
    return scorer.result()


def test_by_hand():
    # Sentence 1: a PER found, a LOC taken for an ORG. Sentence 2: an ORG of 3 words, missed.
    result = score(
        [
            ([Span(0, 2, "PER"), Span(3, 4, "LOC")], [Span(0, 2, "PER"), Span(3, 4, "ORG")]),
            ([Span(0, 3, "ORG")], []),
        ],
        entity_max_length=2,
    )
    assert result.micro == Scores(1 / 2, 1 / 3, 2 / 5, 2 / 3, support=3, predicted=2, correct=1, reachable=2)
    assert result.per_label == {
        "LOC": Scores(0, 0, 0, 1, support=1, predicted=0, correct=0, reachable=1),
        "ORG": Scores(0, 0, 0, 0, support=1, predicted=1, correct=0, reachable=0),
        "PER": Scores(1, 1, 1, 1, support=1, predicted=1, correct=1, reachable=1),
    }
    assert result.macro == Scores(1 / 3, 1 / 3, 1 / 3, 2 / 3, support=3, predicted=2, correct=1, reachable=2)
    assert (result.flat_ceiling, result.sentences) == (2 / 3, 2)


def test_nothing_at_all_scores_zero():
    for result in (score([]), score([([], [])])):
        assert result.micro == result.macro == Scores(0, 0, 0, 0, 0, 0, 0, 0)
        assert result.per_label == {}


def test_unreachable_gold_stays_in_the_denominator():
    # span_marker 1.8.1 drops gold that is too long before it scores, and would call this perfect.
    result = score([([Span(0, 9, "X"), Span(9, 10, "X")], [Span(9, 10, "X")])], entity_max_length=8)
    assert (result.micro.recall, result.micro.ceiling) == (0.5, 0.5)
    assert result.micro.f1 == 2 / 3


def test_labels_that_the_model_lacks_are_unreachable():
    gold = [Span(0, 1, "PER"), Span(1, 2, "VERB"), Span(3, 4, "VERB"), Span(2, 4, "PER")]
    scorer = SpanScorer(entity_max_length=8, labels={"PER", "LOC"})
    scorer.add(gold, [Span(0, 1, "PER")])
    result = scorer.result()
    assert (result.micro.support, result.micro.reachable, result.micro.ceiling) == (4, 2, 0.5)
    assert {label: scores.ceiling for label, scores in result.per_label.items()} == {"PER": 1, "VERB": 0}
    assert (result.macro.ceiling, result.flat_ceiling) == (0.5, 0.5)


def test_nested_gold():
    gold = [Span(0, 5, "ORG"), Span(0, 2, "LOC"), Span(3, 5, "LOC"), Span(0, 5, "PER")]
    result = score([(gold, gold)])
    assert result.micro.f1 == result.macro.f1 == result.micro.ceiling == 1
    assert result.flat_ceiling == 0.5


def test_a_false_positive_of_an_unseen_label_is_charged_to_it_alone():
    # NER-Evaluation 15 charged it to every label.
    result = score([([Span(0, 1, "PER")], [Span(0, 1, "PER"), Span(1, 2, "NEW")])])
    assert result.per_label["PER"] == Scores(1, 1, 1, 1, 1, 1, 1, 1)
    assert result.per_label["NEW"] == Scores(0, 0, 0, 0, 0, 1, 0, 0)
    assert result.micro.precision == 0.5
    assert result.macro.f1 == 0.5


def test_equal_spans_of_two_sentences_are_two_entities():
    span = Span(0, 1, "PER")
    result = score([([span], []), ([], [span])])
    assert (result.micro.support, result.micro.predicted, result.micro.correct) == (1, 1, 0)


@given(pairs, st.randoms(), st.integers(1, 3))
def test_order_and_repetition_change_nothing(pairs, random, times):
    shuffled = [
        (
            random.sample(gold * times, len(gold) * times),
            random.sample(predicted * times, len(predicted) * times),
        )
        for gold, predicted in random.sample(pairs, len(pairs))
    ]
    assert score(shuffled, 3) == score(pairs, 3)


@given(pairs, st.integers(1, 5))
def test_labels_add_up_to_the_whole(pairs, entity_max_length):
    result = score(pairs, entity_max_length)
    for count in ("support", "predicted", "correct", "reachable"):
        total = sum(getattr(scores, count) for scores in result.per_label.values())
        assert total == getattr(result.micro, count) == getattr(result.macro, count)
    for scores in (result.micro, *result.per_label.values()):
        assert scores.correct <= min(scores.support, scores.predicted)
        assert scores.reachable <= scores.support


@given(st.lists(any_spans, max_size=6), st.integers(1, 5))
def test_ceilings_bound_recall(golds, entity_max_length):
    # The best predictions that the model could give at all meet the ceiling and never pass it.
    best = [(gold, [span for span in gold if span.end - span.start <= entity_max_length]) for gold in golds]
    result = score(best, entity_max_length)
    for scores in (result.micro, result.macro, *result.per_label.values()):
        assert scores.recall == scores.ceiling
    assert result.flat_ceiling <= result.micro.ceiling


@given(any_spans)
def test_flat_ceiling_is_the_largest_flat_subset(gold):
    distinct = sorted(set(gold))

    def is_flat(spans):
        return all(a.end <= b.start or b.end <= a.start for a, b in combinations(spans, 2))

    largest = max(
        size for size in range(len(distinct) + 1) if any(is_flat(subset) for subset in combinations(distinct, size))
    )
    assert score([(gold, [])]).flat_ceiling == (largest / len(distinct) if distinct else 0)


@given(st.lists(st.tuples(flat_spans(), flat_spans()), min_size=1, max_size=6))
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_equals_seqeval_strict_on_flat_data(pairs):
    result = score(pairs)
    gold, predicted = ([spans_to_tags(sentence[side], N_WORDS, "IOB2") for sentence in pairs] for side in (0, 1))
    if not result.per_label:
        return  # seqeval can't make a report of no entities
    report = classification_report(gold, predicted, mode="strict", scheme=IOB2, output_dict=True, zero_division=0)
    ours = result.per_label | {"micro avg": result.micro, "macro avg": result.macro}
    assert ours.keys() == report.keys() - {"weighted avg"}
    for name, scores in ours.items():
        for field, theirs in (("precision", "precision"), ("recall", "recall"), ("f1", "f1-score")):
            assert math.isclose(getattr(scores, field), report[name][theirs], abs_tol=1e-12), (name, field)
        assert scores.support == report[name]["support"]


def test_the_issue_that_seqeval_defaults_have():
    # seqeval 23: its default reads a prediction of I- alone as right. A span set has no such reading.
    result = score([([Span(0, 2, "PER")], [Span(1, 2, "PER")])])
    assert result.micro.f1 == 0


def test_scores_need_nothing_beyond_the_standard_library():
    code = (
        "import sys; before = set(sys.modules); import spanmarker_core.evaluation.scores.metrics; "
        "loaded = {name.partition('.')[0] for name in set(sys.modules) - before}; "
        "print(sorted(loaded - set(sys.stdlib_module_names) - {'spanmarker_core'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_scores_fields_are_what_reports_promise():
    names = "precision recall f1 ceiling support predicted correct reachable"
    assert [field.name for field in fields(Scores)] == names.split()

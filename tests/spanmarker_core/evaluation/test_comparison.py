"""Two models on the same data."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanmarker_core.data import Sentence, Span
from spanmarker_core.evaluation.scores.comparison import CHANGES, Comparison
from spanmarker_core.evaluation.scores.metrics import SpanScorer
from spanmarker_core.evaluation.scores.significance import over_documents, over_documents_each
from tests.spanmarker_core.evaluation.drawn import PREDICTIONS, evaluated


def compared(data, **options):
    comparison = Comparison()
    for each in data:
        comparison.add(*each)
    return comparison.to_json(**{"resamples": 50, **options})


def test_by_hand():
    sentence = Sentence("d", 0, ["Ann", "left", "York", "for", "Rome"], [Span(0, 1, "PER"), Span(2, 3, "LOC")])
    first = {Span(0, 1, "PER"): 0.9, Span(1, 2, "PER"): 0.4}
    second = {Span(2, 3, "LOC"): 0.8, Span(4, 5, "LOC"): 0.7}
    values = compared([(sentence, first, second)])
    zero = dict.fromkeys(("both", "won", "lost", "neither", "mended", "spoiled", "wrong"), 0)
    assert values["entities"] == {
        "LOC": zero | {"won": 1, "spoiled": 1},
        "PER": zero | {"lost": 1, "mended": 1},
    }
    assert (values["all"]["first_f1"], values["all"]["second_f1"], values["all"]["difference"]) == (0.5, 0.5, 0)
    assert values["per_label"]["LOC"]["difference"] == pytest.approx(2 / 3)
    examples = values["examples"]
    assert sorted(examples) == sorted(CHANGES)
    assert [(mark["label"], mark["role"]) for mark in examples["won"][0]["marks"]] == [
        ("LOC", "right"),
        ("PER", "right"),
        ("PER", "wrong"),
    ]
    assert "score" not in examples["lost"][0]["marks"][0]


@given(evaluated(), st.data())
def test_it_agrees_with_the_scores_of_each(data, draw):
    data = [(sentence, first, draw.draw(PREDICTIONS)) for sentence, first in data]
    values = compared(data)
    scorers = SpanScorer(), SpanScorer()
    for sentence, *found in data:
        for scorer, predictions in zip(scorers, found, strict=True):
            scorer.add(sentence.entities, predictions)
    first, second = (scorer.result() for scorer in scorers)
    assert (values["all"]["first_f1"], values["all"]["second_f1"]) == (first.micro.f1, second.micro.f1)
    assert values["all"]["difference"] == pytest.approx(second.micro.f1 - first.micro.f1)
    counts = {
        name: sum(each[name] for each in values["entities"].values())
        for name in next(iter(values["entities"].values()), ())
    }
    if counts:
        assert counts["both"] + counts["won"] + counts["lost"] + counts["neither"] == first.micro.support
        assert counts["both"] + counts["lost"] == first.micro.correct
        assert counts["both"] + counts["won"] == second.micro.correct
        assert counts["wrong"] + counts["mended"] == first.micro.predicted - first.micro.correct
        assert counts["wrong"] + counts["spoiled"] == second.micro.predicted - second.micro.correct
    for label, scores in first.per_label.items():
        assert values["per_label"][label]["first_f1"] == scores.f1


def test_a_model_against_itself_differs_by_nothing():
    data = [
        (Sentence(f"d{number}", 0, ["Ann"], [Span(0, 1, "PER")]), *[{Span(0, 1, "PER"): 0.9} if number % 2 else {}] * 2)
        for number in range(9)
    ]
    overall = compared(data)["all"]
    assert (overall["difference"], overall["low"], overall["high"], overall["p"]) == (0, 0, 0, 1)


def test_groups_are_each_told_as_if_alone():
    generator = np.random.default_rng(3)
    gold = generator.integers(1, 5, (3, 40))
    first, second = (
        np.stack([gold, found, np.minimum(gold, found) // 2], axis=-1) for found in generator.integers(0, 5, (2, 3, 40))
    )
    together = over_documents_each(first, second, resamples=500, seed=4)
    alone = [
        over_documents(first[group, None], second[group, None], resamples=500, seed=4) for group in range(len(gold))
    ]
    assert together == alone


def test_groups_of_other_documents_are_refused():
    counts = np.ones((2, 3, 3))
    with pytest.raises(ValueError, match="gold"):
        over_documents_each(counts, counts + 1)
    with pytest.raises(ValueError, match="n_groups"):
        over_documents_each(counts, counts[:1])

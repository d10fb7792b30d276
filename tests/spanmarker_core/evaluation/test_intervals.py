"""Intervals of F1, against a bootstrap over documents."""

import numpy as np
import pytest

from spanmarker_core.evaluation.scores.intervals import FEW, F1Intervals
from spanmarker_core.evaluation.scores.significance import micro_f1
from spanmarker_core.text.tag_schemes import Span


def drawn(documents: int, seed: int, rate: float) -> list[tuple[str, list[Span], list[Span]]]:
    """Return (document, gold, predicted) of sentences; documents differ in size and in how well they are read."""
    random = np.random.default_rng(seed)
    sentences = []
    for number in range(documents):
        good = random.beta(8 * rate, 8 * (1 - rate))
        for place in range(random.integers(1, 5)):
            gold = [Span(2 * n, 2 * n + 1, str(random.choice(["PER", "LOC"]))) for n in range(random.integers(0, 6))]
            found = [span if random.random() < good else Span(span.start, span.end + 1, span.label) for span in gold]
            sentences.append((f"d{number}", gold, [span for span in found if random.random() < 0.9]))
            assert place < 5
    return sentences


def bootstrap(sentences, label, resamples=4000):
    counts: dict[str, list[int]] = {}
    for document, gold, predicted in sentences:
        row = counts.setdefault(document, [0, 0, 0])
        sides = [{span for span in spans if label in (None, span.label)} for spans in (gold, predicted)]
        for place, size in enumerate((len(sides[0]), len(sides[1]), len(sides[0] & sides[1]))):
            row[place] += size
    table = np.array(list(counts.values()), np.float64)
    weights = np.random.default_rng(0).multinomial(len(table), np.full(len(table), 1 / len(table)), resamples)
    return np.quantile(micro_f1(weights @ table), (0.025, 0.975))


@pytest.mark.parametrize("rate", [0.3, 0.7, 0.9])
def test_intervals_agree_with_a_bootstrap(rate):
    sentences = drawn(400, 5, rate)
    intervals = F1Intervals()
    for sentence in sentences:
        intervals.add(*sentence)
    found = intervals.to_json()
    for label, interval in [(None, found["all"]), *found["per_label"].items()]:
        low, high = bootstrap(sentences, label)
        assert interval["low"] == pytest.approx(low, abs=0.012)
        assert interval["high"] == pytest.approx(high, abs=0.012)


@pytest.mark.slow
def test_intervals_hold_what_they_promise():
    """Of many samples from one population, about 95 % have an interval with its F1."""
    whole = drawn(20_000, 1, 0.6)
    counts = np.array([(len(g), len(p), len(set(g) & set(p))) for _, g, p in whole]).sum(axis=0)
    truth, held = micro_f1(counts), 0
    by_document: dict[str, list] = {}
    for document, gold, predicted in whole:
        by_document.setdefault(document, []).append((gold, predicted))
    documents, random = list(by_document.values()), np.random.default_rng(2)
    for _ in range(200):
        intervals = F1Intervals()
        for number, place in enumerate(random.integers(0, len(documents), 60)):
            for gold, predicted in documents[place]:
                intervals.add(str(number), gold, predicted)
        found = intervals.to_json()["all"]
        held += found["low"] <= truth <= found["high"]
    assert 180 <= held <= 198


def test_there_is_no_interval_where_documents_say_nothing():
    intervals = F1Intervals()
    span = [Span(0, 1, "PER")]
    for number in range(FEW):
        assert intervals.to_json()["all"] is None  # too few
        intervals.add(f"d{number}", span, span)
    assert intervals.to_json()["all"] is None  # all of them are right
    intervals.add("other", span, [])
    assert intervals.to_json()["all"]["low"] < 0.96
    assert intervals.to_json() == intervals.to_json()


def test_sentences_of_a_document_count_as_one():
    apart, together = F1Intervals(), F1Intervals()
    for number in range(60):
        found = [Span(0, 1, "PER")] if number % 6 < 3 else []
        apart.add(f"d{number}", [Span(0, 1, "PER")], found)
        together.add(f"d{number // 3}", [Span(0, 1, "PER")], found)
    narrow, wide = (each.to_json()["all"] for each in (apart, together))
    assert wide["high"] - wide["low"] > 1.5 * (narrow["high"] - narrow["low"])

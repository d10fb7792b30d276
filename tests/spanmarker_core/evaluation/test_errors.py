"""Kinds of errors, their rates, and confusion between labels."""

from hypothesis import given

from spanmarker_core.evaluation.scores.confusion import Confusion
from spanmarker_core.evaluation.scores.error_kinds import KINDS, ErrorCounter, error_kinds
from spanmarker_core.evaluation.scores.overlaps import overlapping
from spanmarker_core.text.tag_schemes import Span
from tests.spanmarker_core.evaluation.drawn import SETS

#: "will it rain this night", BL-NER section 4.3.2.
RAIN, NIGHT = Span(2, 3, "Weather"), Span(3, 5, "Date")


def kinds(gold, predicted):
    missed, false = error_kinds(gold, predicted)
    return list(missed.values()), list(false.values())


def test_the_papers_examples():
    for wrong in (Span(1, 3, "Weather"), Span(0, 3, "Weather"), Span(2, 4, "Weather")):
        assert kinds([RAIN], [wrong]) == (["boundary"], ["boundary"])
    assert kinds([RAIN, NIGHT], [Span(2, 3, "Date"), NIGHT]) == (["type"], ["type"])


def test_each_kind_by_hand():
    gold = [Span(0, 2, "PER"), Span(3, 5, "LOC"), Span(6, 8, "ORG"), Span(9, 10, "PER"), Span(20, 21, "PER")]
    predicted = [Span(0, 2, "LOC"), Span(3, 6, "LOC"), Span(7, 8, "PER"), Span(12, 13, "ORG"), Span(20, 21, "PER")]
    assert kinds(gold, predicted) == (
        ["type", "boundary", "both", "missed"],
        ["type", "boundary", "both", "spurious"],
    )
    counter = ErrorCounter()
    counter.add(*error_kinds(gold, predicted))
    rates = counter.rates()
    assert (rates.boundary_error_rate, rates.boundary_same_label_rate, rates.type_error_rate) == (2 / 8, 1 / 8, 1 / 8)


def test_several_for_one_are_each_an_error_of_boundaries():
    assert kinds([Span(0, 4, "PER")], [Span(0, 2, "PER"), Span(2, 4, "PER")]) == (["boundary"], ["boundary"] * 2)


def test_the_best_known_kind_wins():
    # The words of one gold entity under another label, and a part of another one under its own.
    assert kinds([Span(0, 2, "PER"), Span(1, 3, "LOC")], [Span(0, 2, "LOC")]) == (["type", "boundary"], ["type"])


def test_what_was_found_right_explains_no_error():
    university, york = Span(0, 3, "ORG"), Span(0, 2, "LOC")
    assert kinds([university, york], [university]) == (["missed"], [])
    assert kinds([university], [university, york]) == ([], ["spurious"])


@given(SETS, SETS)
def test_kinds_partition_the_errors(gold, predicted):
    missed, false = error_kinds(gold, predicted)
    assert set(missed) == gold - predicted
    assert set(false) == predicted - gold
    counter = ErrorCounter()
    counter.add(missed, false)
    rates = counter.rates()
    assert sum(rates.missed.values()) == len(gold - predicted)
    assert sum(rates.false.values()) == len(predicted - gold)
    assert 0 <= rates.boundary_same_label_rate <= rates.boundary_error_rate <= 1
    assert rates.boundary_error_rate + rates.type_error_rate <= 1
    # An error of one side of a kind other than missed and spurious has an error of the other side beside it.
    assert (set(missed.values()) <= {"missed"}) == (set(false.values()) <= {"spurious"})


@given(SETS, SETS)
def test_kinds_say_what_they_mean(gold, predicted):
    """Straight from the words of the conventions, pair by pair."""
    missed, false = error_kinds(gold, predicted)
    for errors, others in ((missed, set(false)), (false, set(missed))):
        for span, kind in errors.items():
            near = [other for other in others if other.start < span.end and span.start < other.end]
            same_words = any((other.start, other.end) == (span.start, span.end) for other in near)
            same_label = any(other.label == span.label for other in near)
            alone = "missed" if errors is missed else "spurious"
            assert kind == ("type" if same_words else "boundary" if same_label else "both" if near else alone)
            assert kind in KINDS


@given(SETS, SETS)
def test_overlapping_gives_each_pair_once(first, second):
    found = list(overlapping(first, second))
    assert len(found) == len(set(found))
    assert set(found) == {(a, b) for a in first for b in second if a.start < b.end and b.start < a.end}


@given(SETS, SETS)
def test_rows_and_columns_of_the_confusion_add_up(gold, predicted):
    confusion = Confusion()
    confusion.add(gold, predicted)
    values = confusion.to_json()
    labels, counts = values["labels"], values["counts"]
    for place, label in enumerate(labels[:-1]):
        assert sum(counts[place]) == sum(span.label == label for span in gold)
        assert sum(row[place] for row in counts) == sum(span.label == label for span in predicted)
    assert counts[-1][-1] == 0
    assert sum(counts[place][place] for place in range(len(labels) - 1)) == len(gold & predicted)


def test_a_span_with_several_labels_pairs_what_is_left():
    confusion = Confusion()
    confusion.add([Span(0, 1, "A"), Span(0, 1, "B")], [Span(0, 1, "B"), Span(0, 1, "C"), Span(0, 1, "D")])
    assert confusion.counts() == {("B", "B"): 1, ("A", "C"): 1, (None, "D"): 1}

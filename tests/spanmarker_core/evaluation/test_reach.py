import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanmarker_core.data import Sentence, Span
from spanmarker_core.data.summary import summarise
from spanmarker_core.evaluation.scores.reach import (
    LengthReport,
    largest_flat_subset,
    length_report,
    reachable_by_length,
    report_of,
)


def sentences(*lengths_and_labels):
    """Return one sentence for each entity."""
    return (
        Sentence(f"d{number}", 0, ["w"] * length, [Span(0, length, label)])
        for number, (length, label) in enumerate(lengths_and_labels)
    )


def test_by_hand():
    entities = [(1, "PER")] * 90 + [(3, "PER")] * 8 + [(5, "ORG"), (30, "ORG"), (30, "LOC"), (9, "ORG")]
    report = length_report(sentences(*entities), entity_max_length=4)
    assert report.lengths == {1: 90, 3: 8, 5: 1, 9: 1, 30: 2}
    assert (report.sentences, report.entities, report.reachable, report.flat) == (102, 102, 98, 98)
    assert report.unreachable_labels == {"ORG": 3, "LOC": 1}
    assert report.coverage == {1: 90 / 102, 3: 98 / 102, 5: 99 / 102, 9: 100 / 102, 30: 1.0}
    assert report.suggested == 30
    assert report.smallest_covering(0.95) == 3
    assert (
        report.to_text()
        == """\
102 entities in 102 sentences; entity_max_length is 4 words.
Reachable: 98 (96.08%). Out of reach: 4 (3.92%), which count as missed.

  words    entities   reached by this limit   spans to score
      1          90                  88.24%            0.46x
      3           8                  96.08%            0.85x
      5           1                  97.06%            1.14x
      9           1                  98.04%            1.62x
     30           2                 100.00%            2.75x

Out of reach by label: ORG 3, LOC 1.
Smallest entity_max_length that reaches: 90% 3, 95% 3, 99% 30, 100% 30.
Suggested entity_max_length: 30 (99% of entities; now 4)."""
    )


def test_exactly_99_percent_is_enough():
    report = length_report(sentences(*[(2, "X")] * 99, (40, "X")), entity_max_length=2)
    assert report.suggested == 2
    text = report.to_text()
    assert "      2          99                  99.00%            1.00x  <- entity_max_length" in text
    assert "     >2           1   longest 40" in text
    assert "99% of entities; unchanged" in text


def test_overlapping_entities_are_told():
    words = ["w"] * 6
    gold = [Span(0, 6, "ORG"), Span(0, 2, "LOC"), Span(0, 2, "LOC"), Span(1, 2, "LOC"), Span(3, 4, "PER")]
    report = length_report([Sentence("d", 0, words, gold)], entity_max_length=5)
    assert (report.entities, report.reachable, report.flat) == (4, 3, 2)
    assert "decoder flat.v1 can return at most 2 (50.00%); nested.v1" in report.to_text()
    assert "Some overlap: tags can return at most 2 (50.00%).\n" in report.to_text(tags=True)


def test_nothing_is_said_of_spans_where_tags_give_the_entities():
    report = length_report([Sentence("d", 0, ["w"] * 6, [Span(0, 1, "ORG"), Span(2, 5, "LOC")])], entity_max_length=3)
    spans, tags = report.to_text(), report.to_text(tags=True)
    assert "spans to score" in spans
    assert "      3           1                 100.00%            1.00x  <- entity_max_length" in spans
    assert "span" not in tags
    assert "      3           1                 100.00%  <- entity_max_length" in tags


def test_no_entities():
    report = length_report([Sentence("d", 0, ["w"], [])], 8)
    assert (report.suggested, report.coverage, report.reachable) == (None, {}, 0)
    assert report.to_text() == "No entities in 1 sentences."


@given(st.dictionaries(st.integers(0, 30), st.integers(1, 4), max_size=5), st.integers(1, 12))
def test_spans_are_those_that_can_be_listed(sentence_lengths, limit):
    listed = sum(
        count
        for n_words, count in sentence_lengths.items()
        for start in range(n_words)
        for end in range(start + 1, min(start + limit, n_words) + 1)
    )
    assert LengthReport(8, sentence_lengths, {}, {}, None).spans(limit) == listed


def test_what_was_summed_up_before_gives_the_same_report():
    entities = [(1, "PER")] * 90 + [(3, "PER")] * 8 + [(5, "ORG"), (30, "ORG")]
    whole = length_report(sentences(*entities), 4)
    assert report_of(summarise(sentences(*entities)), 4, whole.flat) == whole
    assert "overlap" not in report_of(summarise(sentences(*entities)), 4).to_text()


def test_reads_a_stream_once():
    seen = []

    def stream():
        for number in range(3):
            seen.append(number)
            yield Sentence("d", number, ["w"], [Span(0, 1, "X")])

    assert length_report(stream(), 8).entities == 3
    assert seen == [0, 1, 2]


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=200),
    st.integers(1, 70),
    st.sampled_from([0.5, 0.9, 0.99]),
)
def test_suggestion_is_the_smallest_that_covers(lengths, limit, share):
    report = length_report(sentences(*((length, "X") for length in lengths)), limit)
    chosen = report.smallest_covering(share)
    assert sum(length <= chosen for length in lengths) / len(lengths) >= share
    assert sum(length < chosen for length in lengths) / len(lengths) < share
    assert report.reachable == sum(length <= limit for length in lengths)
    assert report.to_text()


def test_no_limit_reaches_everything():
    entities = [Span(0, 50, "X"), Span(0, 1, "X")]
    assert reachable_by_length(entities, None) == entities


@pytest.mark.parametrize(
    ("entities", "size"),
    [
        ([], 0),
        ([Span(0, 1, "A"), Span(0, 1, "B")], 1),
        ([Span(0, 3, "A"), Span(2, 5, "A"), Span(4, 7, "A")], 2),
        ([Span(0, 9, "A"), Span(1, 2, "A"), Span(3, 4, "A"), Span(5, 6, "A")], 3),
    ],
)
def test_largest_flat_subset(entities, size):
    assert len(largest_flat_subset(entities)) == len(largest_flat_subset(entities[::-1])) == size

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanmarker_core.errors import CoreError
from spanmarker_core.spans.decoding import DECODERS, Candidates, decode, select_pairs, threshold_vector


def candidates(rows):
    """Rows of (sentence, start, end, label, score)."""
    columns = np.array([r[:4] for r in rows], np.int32).reshape(-1, 4).T
    zeros = np.zeros(len(rows), np.int64)
    return Candidates(
        window=zeros,
        document=zeros.astype(np.int32),
        sentence=columns[0],
        word_start=columns[1],
        word_end=columns[2],
        char_start=zeros - 1,
        char_end=zeros - 1,
        label=columns[3],
        score=np.array([r[4] for r in rows], np.float32),
    )


def spans(found):
    return list(zip(found.word_start.tolist(), found.word_end.tolist(), found.label.tolist(), strict=True))


NEW_YORK = [(0, 0, 2, 1, 0.9), (0, 1, 2, 1, 0.8), (0, 1, 3, 2, 0.7), (0, 3, 4, 1, 0.6), (0, 0, 2, 2, 0.5)]


@pytest.mark.parametrize(
    ("decoder", "kept"),
    [
        ("flat.v1", [(0, 2, 1), (3, 4, 1)]),
        ("nested.v1", [(0, 2, 1), (1, 2, 1), (3, 4, 1)]),  # without what crosses, and one label a span
        ("all.v1", [(0, 2, 1), (0, 2, 2), (1, 2, 1), (1, 3, 2), (3, 4, 1)]),
    ],
)
def test_by_hand(decoder, kept):
    assert sorted(spans(decode(candidates(NEW_YORK), decoder))) == kept


@pytest.mark.parametrize("decoder", sorted(DECODERS))
def test_thousands_of_entities_in_one_sentence(decoder):
    rows = [(0, 2 * i, 2 * i + 2, 1, 0.5) for i in range(20_000)]
    began = time.monotonic()
    assert len(decode(candidates(rows), decoder)) == 20_000
    assert time.monotonic() - began < 5


def test_no_score_below_its_threshold_by_rounding():
    scores = np.array([[0.3, 0.7]], np.float32)
    assert float(scores[0, 1]) < 0.7
    assert len(select_pairs(scores, 0, threshold_vector(0.7, ["O", "A"]))[0]) == 0


def test_ties_go_to_the_longer_then_the_earlier_then_the_earlier_label():
    rows = [(0, 1, 2, 1, 0.5), (0, 0, 2, 2, 0.5), (0, 0, 2, 1, 0.5), (0, 1, 3, 1, 0.5)]
    assert spans(decode(candidates(rows), "flat.v1")) == [(0, 2, 1)]


def test_sentences_do_not_compete():
    assert len(decode(candidates([(0, 0, 2, 1, 0.9), (1, 0, 2, 1, 0.1)]), "flat.v1")) == 2


SPAN = st.integers(0, 8).flatmap(lambda start: st.tuples(st.just(start), st.integers(start + 1, 10)))
TAG_TABLES = st.lists(
    st.builds(
        lambda n, s, label, score: (n, *s, label, score),
        st.integers(0, 1),
        SPAN,
        st.integers(1, 3),
        st.sampled_from([0.2, 0.5, 0.9]),
    ),
    max_size=20,
    unique_by=lambda row: row[:4],
)


@given(TAG_TABLES, st.randoms(), st.sampled_from(sorted(DECODERS)))
def test_the_order_of_candidates_does_not_matter(rows, random, decoder):
    shuffled = list(rows)
    random.shuffle(shuffled)
    first, second = decode(candidates(rows), decoder), decode(candidates(shuffled), decoder)
    assert [spans(first), first.score.tolist()] == [spans(second), second.score.tolist()]


@given(TAG_TABLES)
def test_what_each_decoder_promises(rows):
    for sentence in (0, 1):
        here = [row for row in rows if row[0] == sentence]
        flat = spans(decode(candidates(here), "flat.v1"))
        words = [word for start, end, _ in flat for word in range(start, end)]
        assert len(words) == len(set(words))
        nested = spans(decode(candidates(here), "nested.v1"))
        for a_start, a_end, _ in nested:
            for b_start, b_end, _ in nested:
                assert not a_start < b_start < a_end < b_end
        assert len({span[:2] for span in nested}) == len(nested)
        assert sorted(spans(decode(candidates(here), "all.v1"))) == sorted(row[1:4] for row in here)
        # Greedy is maximal: whatever was dropped overlaps something kept.
        for _, start, end, _, _ in here:
            assert any(start < e and s < end for s, e, _ in flat)


def test_selection_without_and_with_thresholds():
    probabilities = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7]], np.float32)
    rows, labels = select_pairs(probabilities, 0, None)
    assert (rows.tolist(), labels.tolist()) == ([1, 2], [1, 2])
    rows, labels = select_pairs(probabilities, 0, threshold_vector(0.3, ["O", "A", "B"]))
    assert list(zip(rows.tolist(), labels.tolist(), strict=True)) == [(0, 1), (1, 1), (1, 2), (2, 2)]
    rows, labels = select_pairs(probabilities, 0, threshold_vector({"B": 0.1}, ["O", "A", "B"]))
    assert list(zip(rows.tolist(), labels.tolist(), strict=True)) == [(0, 2), (1, 2), (2, 2)]


def test_labels_with_and_without_a_threshold():
    probabilities = np.array([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7], [0.2, 0.45, 0.35]], np.float32)
    rows, labels = select_pairs(probabilities, 0, threshold_vector({"A": None, "B": 0.3}, ["O", "A", "B"]))
    assert list(zip(rows.tolist(), labels.tolist(), strict=True)) == [(1, 1), (1, 2), (2, 2), (3, 1), (3, 2)]
    chosen = np.array([1, 2, 2, 1])  # by the model itself
    rows, labels = select_pairs(probabilities, 0, threshold_vector({"A": None, "B": 0.5}, ["O", "A", "B"]), chosen)
    assert list(zip(rows.tolist(), labels.tolist(), strict=True)) == [(0, 1), (2, 2), (3, 1)]


def test_a_label_that_the_model_lacks_is_named_with_a_similar_one():
    with pytest.raises(CoreError) as caught:
        threshold_vector({"PERSON": 0.5}, ["O", "person", "work"])
    assert (caught.value.code, caught.value.values["label"]) == ("call.unknown_label", "PERSON")
    assert "person" in caught.value.values["suggestion"]


def test_decoders_have_names_without_their_version():
    found = candidates([(0, 0, 2, 0, 0.9), (0, 1, 3, 0, 0.8)])
    assert len(decode(found, "flat")) == len(decode(found, "flat.v1")) == 1
    assert len(decode(found, "all")) == 2


@pytest.mark.parametrize("threshold", [-0.1, 1.5, "high", True, {"A": "high"}, {"A": 2}])
def test_bad_thresholds(threshold):
    with pytest.raises(CoreError, match=r"call\.bad_threshold"):
        threshold_vector(threshold, ["O", "A", "B"])


def test_a_label_that_the_model_lacks_is_named_with_the_one_meant():
    labels = ["O", "person-actor", "location-island", "location-GPE"]
    with pytest.raises(CoreError) as caught:
        threshold_vector({"person-actor": 0.5, "LOC": 0.5}, labels)
    assert caught.value.code == "call.unknown_label"
    assert caught.value.values["label"] == "LOC"
    assert caught.value.values["suggestion"].startswith("Did you mean location-GPE or")


def test_unknown_decoder():
    with pytest.raises(CoreError, match=r"flat\.v1, nested\.v1, all\.v1"):
        decode(candidates([]), "best")

from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from seqeval.scheme import BILOU, IOB1, IOB2, IOBES, Tokens

from spanmarker_core.errors import CoreError
from spanmarker_core.text.tag_schemes import (
    TAG_SCHEMES,
    Span,
    label_problem,
    scheme_called,
    spans_to_tags,
    tags_to_spans,
)

ORACLES = {"IOB1": IOB1, "IOB2": IOB2, "BIOES": IOBES, "BILOU": BILOU}
LETTERS = {"IOB1": "IB", "IOB2": "IB", "BIOES": "BIES", "BILOU": "BILU"}


@st.composite
def flat_sentences(draw, labels=("PER", "LOC", "a-b", "人名")):
    """Return (spans, n_words): spans side by side, with or without words between them."""
    spans, word = [], 0
    for gap, length, label in draw(
        st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4), st.sampled_from(labels)), max_size=8)
    ):
        start = word + gap
        spans.append(Span(start, start + length, label))
        word = start + length
    return spans, word + draw(st.integers(0, 2))


@st.composite
def any_tags(draw, scheme):
    tag = st.one_of(
        st.just("O"),
        st.builds("{}-{}".format, st.sampled_from(LETTERS[scheme]), st.sampled_from(["PER", "LOC"])),
    )
    return draw(st.lists(tag, max_size=8))


def seqeval_spans(tags, scheme):
    return sorted(Span(entity.start, entity.end, entity.tag) for entity in Tokens(tags, ORACLES[scheme]).entities)


# Adjacent spans of different labels, then of one label, then one after a gap at the sentence's end.
EXAMPLE = [Span(0, 2, "PER"), Span(2, 3, "LOC"), Span(3, 4, "LOC"), Span(5, 8, "ORG")]


@pytest.mark.parametrize(
    ("scheme", "tags"),
    [
        ("IOB1", "I-PER I-PER I-LOC B-LOC O I-ORG I-ORG I-ORG"),
        ("IOB2", "B-PER I-PER B-LOC B-LOC O B-ORG I-ORG I-ORG"),
        ("BIOES", "B-PER E-PER S-LOC S-LOC O B-ORG I-ORG E-ORG"),
        ("BILOU", "B-PER L-PER U-LOC U-LOC O B-ORG I-ORG L-ORG"),
    ],
)
def test_hand_worked_example(scheme, tags):
    assert tags_to_spans(tags.split(), scheme) == EXAMPLE
    assert spans_to_tags(EXAMPLE, 8, scheme) == tags.split()


def test_plain_reads_maximal_runs():
    tags = ["PER", "PER", "LOC", "O", "LOC", "other-x", "O"]
    spans = [Span(0, 2, "PER"), Span(2, 3, "LOC"), Span(4, 5, "LOC"), Span(5, 6, "other-x")]
    assert tags_to_spans(tags, "plain") == spans
    assert spans_to_tags(spans, 7, "plain") == tags


def test_iob1_type_change_ends_a_span():
    # span_marker 1.8.1 reads these tags as one PER of two words.
    assert tags_to_spans(["I-PER", "I-LOC"], "IOB1") == [Span(0, 1, "PER"), Span(1, 2, "LOC")]


@pytest.mark.parametrize("scheme", TAG_SCHEMES)
def test_no_words_and_no_entities(scheme):
    assert tags_to_spans([], scheme) == []
    assert spans_to_tags([], 0, scheme) == []
    assert tags_to_spans(["O", "O"], scheme) == []
    assert spans_to_tags([], 2, scheme) == ["O", "O"]


@pytest.mark.parametrize("scheme", TAG_SCHEMES)
@given(data=st.data())
def test_round_trip(scheme, data):
    spans, n_words = data.draw(flat_sentences())
    if scheme == "plain":
        assume(all(a.end < b.start or a.label != b.label for a, b in pairwise(spans)))
    shuffled = data.draw(st.permutations(spans))
    tags = spans_to_tags(shuffled, n_words, scheme)
    assert len(tags) == n_words
    assert tags_to_spans(tags, scheme) == spans
    assert spans_to_tags(tags_to_spans(tags, scheme), n_words, scheme) == tags


@pytest.mark.parametrize("scheme", ORACLES)
@given(data=st.data())
def test_tags_are_read_as_seqeval_strict_reads_them_or_refused(scheme, data):
    tags = data.draw(any_tags(scheme))
    expected = seqeval_spans(tags, scheme)
    # seqeval passes over what the scheme forbids, so writing what it read doesn't give such tags back.
    if spans_to_tags(expected, len(tags), scheme) == tags:
        assert tags_to_spans(tags, scheme) == expected
    else:
        with pytest.raises(CoreError) as caught:
            tags_to_spans(tags, scheme)
        assert caught.value.code in ("labels.bad_sequence", "labels.unfinished")
        assert 0 <= caught.value.values["word"] < len(tags)


@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        ("IOB", "IOB1"),
        ("iob2", "IOB2"),
        ("BIO", "IOB2"),
        ("bilou", "BILOU"),
        ("Bioes", "BIOES"),
        ("none", "plain"),
        ("PLAIN", "plain"),
    ],
)
def test_names_of_the_thesis_and_lower_case(name, scheme):
    spans = [Span(0, 2, "PER"), Span(2, 3, "LOC"), Span(4, 5, "LOC")]
    tags = spans_to_tags(spans, 6, name)
    assert tags == spans_to_tags(spans, 6, scheme)
    assert tags_to_spans(tags, name) == spans
    assert scheme_called(name) == scheme


@pytest.mark.parametrize(
    ("scheme", "tags", "code", "word"),
    [
        ("IOB1", "O B-PER", "labels.bad_sequence", 1),  # IOB2 data under the wrong name
        ("IOB1", "B-PER", "labels.bad_sequence", 0),
        ("IOB1", "I-PER B-LOC", "labels.bad_sequence", 1),
        ("IOB2", "O I-PER", "labels.bad_sequence", 1),  # IOB1 data under the wrong name
        ("IOB2", "I-PER", "labels.bad_sequence", 0),
        ("IOB2", "B-PER I-LOC", "labels.bad_sequence", 1),
        ("IOB2", "B-PER O I-PER", "labels.bad_sequence", 2),
        ("BIOES", "B-PER O", "labels.bad_sequence", 1),
        ("BIOES", "B-PER B-PER", "labels.bad_sequence", 1),
        ("BIOES", "B-PER E-LOC", "labels.bad_sequence", 1),
        ("BIOES", "S-PER I-PER", "labels.bad_sequence", 1),
        ("BIOES", "E-PER", "labels.bad_sequence", 0),
        ("BIOES", "O B-PER I-PER", "labels.unfinished", 2),
        ("BILOU", "O B-PER", "labels.unfinished", 1),
        ("BILOU", "U-PER L-PER", "labels.bad_sequence", 1),
        ("BIOES", "U-PER", "labels.bad_tag", 0),
        ("BILOU", "O S-PER", "labels.bad_tag", 1),
        ("IOB2", "B-PER E-PER", "labels.bad_tag", 1),
        ("IOB2", "O PER", "labels.bad_tag", 1),
        ("IOB2", "B-", "labels.bad_tag", 0),
        ("IOB2", "B", "labels.bad_tag", 0),
        ("IOB2", "-PER", "labels.bad_tag", 0),
        ("IOB2", "BI-PER", "labels.bad_tag", 0),
        ("IOB2", "b-PER", "labels.bad_tag", 0),
        ("IOB2", "o", "labels.bad_tag", 0),
        ("IOB2", "B-O", "labels.bad_tag", 0),
        ("plain", "B-PER I-PER", "labels.bad_tag", 1),
        ("plain", "O B-PER E-PER", "labels.bad_tag", 2),
    ],
)
def test_forbidden_tags(scheme, tags, code, word):
    with pytest.raises(CoreError) as caught:
        tags_to_spans(tags.split(), scheme)
    assert caught.value.code == code
    assert caught.value.values["word"] == word
    assert caught.value.values["scheme"] == scheme


@pytest.mark.parametrize("scheme", TAG_SCHEMES)
@pytest.mark.parametrize("tag", ["", " ", "B-PER\n", "S-PER\r", " O", "O\n", 3, None])
def test_tags_that_are_none(scheme, tag):
    with pytest.raises(CoreError) as caught:
        tags_to_spans([tag], scheme)
    assert caught.value.code == "labels.bad_tag"


PER, LOC = "PER", "LOC"
OVERLAPS = {
    "nested": [Span(0, 3, PER), Span(1, 2, PER)],
    "crossing": [Span(0, 2, PER), Span(1, 3, LOC)],
    "one span, two labels": [Span(0, 2, PER), Span(0, 2, LOC)],
    "repeated": [Span(0, 2, PER), Span(0, 2, PER)],
}


@pytest.mark.parametrize(
    ("scheme", "spans", "code"),
    [
        *((scheme, spans, "labels.overlap") for scheme in TAG_SCHEMES for spans in OVERLAPS.values()),
        ("plain", [Span(0, 1, PER), Span(1, 2, PER)], "labels.adjacent"),
        *(("IOB2", [Span(*edges, PER)], "labels.bad_span") for edges in ((-1, 1), (1, 1), (2, 1), (2, 4))),
        *(("IOB2", [Span(0, 1, label)], "labels.bad_label") for label in ("", "O", " PER", "PER\n", None, 3)),
    ],
)
def test_spans_that_have_no_tags(scheme, spans, code):
    for order in (spans, spans[::-1]):
        with pytest.raises(CoreError) as caught:
            spans_to_tags(order, 3, scheme)
        assert caught.value.code == code
    assert code != "labels.bad_label" or label_problem(spans[0].label)


@pytest.mark.parametrize("name", ["IOBES", "IOB3", "iob 2", "", "spans ", 2])
def test_names_that_no_one_settled(name):
    with pytest.raises(CoreError) as caught:
        scheme_called(name)
    assert caught.value.code == "call.unknown_option"


@pytest.mark.parametrize("scheme", ["IOBES", "iob 2", "spans", ""])
def test_tags_need_a_scheme_that_has_some(scheme):
    for call in (lambda: tags_to_spans([], scheme), lambda: spans_to_tags([], 0, scheme)):
        with pytest.raises(CoreError) as caught:
            call()
        assert caught.value.code == "call.unknown_option"
        assert caught.value.values["choices"] == "IOB1, IOB2, BIOES, BILOU, plain"

"""Data are summed up the same in any order and any number of parts, in bounded memory."""

import json
import random
from itertools import chain
from statistics import median

import pytest

from spanmarker_core.data import Sentence, Span
from spanmarker_core.data.summary import (
    EXAMPLES,
    SURFACE_CHARACTERS,
    DataSummary,
    span_of,
    summarise,
)
from spanmarker_core.errors import UnusableError

DRAW = random.Random(5)


def sentence(document: int, number: int) -> Sentence:
    words = [f"w{DRAW.randrange(50)}" for _ in range(DRAW.randrange(1, 30))]
    spans = {Span(start, min(start + 3, len(words)), DRAW.choice("abc")) for start in range(0, len(words), 7)}
    return Sentence(f"d{document}", number, words, sorted(spans, key=str))


DOCUMENTS = [[sentence(document, number) for number in range(DRAW.randrange(1, 6))] for document in range(40)]
SENTENCES = [each for document in DOCUMENTS for each in document]


def test_counts():
    summary = summarise(SENTENCES)
    assert (summary.sentences, summary.documents) == (len(SENTENCES), 40)
    assert summary.words == sum(len(each.words) for each in SENTENCES)
    assert summary.entities == sum(label.count for label in summary.labels.values())
    assert summary.lengths().total() == summary.entities == sum(len(each.entities) for each in SENTENCES)
    lengths = [len(each.words) for each in SENTENCES]
    assert span_of(summary.sentence_lengths) == (min(lengths), median(lengths), max(lengths))
    of_a = {" ".join(s.words[e.start : e.end]) for s in SENTENCES for e in s.entities if e.label == "a"}
    assert len(summary.labels["a"].examples) == EXAMPLES
    assert set(summary.labels["a"].examples) <= of_a
    assert len(set(summary.example_sentences)) == 5
    assert set(summary.example_sentences) <= {" ".join(each.words) for each in SENTENCES}


@pytest.mark.parametrize("seed", range(5))
def test_parts_in_any_order_make_the_whole(seed):
    draw = random.Random(seed)
    documents = draw.sample(DOCUMENTS, len(DOCUMENTS))
    total = DataSummary()
    while documents:
        part, documents = documents[: seed + 1], documents[seed + 1 :]
        total.merge(DataSummary.from_json(json.loads(json.dumps(summarise(chain(*part)).to_json()))))
    assert total == summarise(SENTENCES)
    assert json.dumps(total.to_json()) == json.dumps(summarise(SENTENCES).to_json())


def test_no_text_is_kept_that_is_too_long_to_show():
    giant = Sentence("d", 0, ["x" * 10**6, "y" * 10**6, "z", "a", "b"], [Span(0, 2, "A"), Span(2, 3, "A")])
    summary = summarise([giant])
    assert sorted(map(len, summary.labels["A"].examples)) == [1, SURFACE_CHARACTERS]
    assert summary.example_sentences == []
    assert len(json.dumps(summary.to_json())) < 1000


def test_an_entity_named_twice_is_one_and_no_data_have_no_median():
    twice = summarise([Sentence("d", 0, ["a"], [Span(0, 1, "A"), Span(0, 1, "A"), Span(0, 1, "B")])])
    assert (twice.entities, twice.sentence_entities) == (2, {2: 1})
    assert span_of(DataSummary().sentence_lengths) is None
    assert DataSummary.from_json(DataSummary().to_json()) == DataSummary()


@pytest.mark.parametrize("key", list(DataSummary().to_json()))
@pytest.mark.parametrize("other", [None, "x", -1, [[1]], [[1, "2"]], {"a": 1}])
def test_other_values_are_refused(key, other):
    with pytest.raises(UnusableError, match="not a data summary"):
        DataSummary.from_json({**summarise(SENTENCES).to_json(), key: other})
    with pytest.raises(UnusableError, match="not a data summary"):
        DataSummary.from_json(other)

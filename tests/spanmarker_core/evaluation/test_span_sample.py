"""Which spans are looked at, and what stands for them, on every architecture."""

import json
from collections import Counter
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spanmarker_core import load
from spanmarker_core.data import Sentence, Span
from spanmarker_core.data.windows import pack_annotated
from spanmarker_core.errors import CoreError
from spanmarker_core.evaluation.representations import span_sample
from spanmarker_core.evaluation.representations.cosines import class_cosines
from spanmarker_core.evaluation.representations.representations import LEVELS, analyse
from spanmarker_core.evaluation.representations.span_features import (
    NEAR,
    RATIOS,
    neighbours,
    pair_cosines,
    span_features,
)
from spanmarker_core.evaluation.representations.span_sample import lowest, sample_spans
from spanmarker_core.inference.tagger import Tagger
from spanmarker_core.models.batch import Batch
from spanmarker_core.spans.candidates import Spans, candidate_spans
from spanmarker_core.windows.packer import Context
from tests.spanmarker_core.models.test_every_architecture import CASES, TRAINED, made, nested_sentences
from tests.support.training import sentences

ALL = 10_000


def model_of(case, encoder, context: str = "sentence") -> Tagger:
    config, packer, loss, _ = made(case, encoder, sentences())
    return Tagger(replace(config, context=Context(context)), packer, loss.network, torch.device("cpu"))


def data_of_all_kinds() -> list[Sentence]:
    """Documents of several sentences, entities that nest, cross, have two labels or none that can be reached."""
    long = Sentence("long", 0, ["the", "paris"] * 40, [Span(1, 2, "location"), Span(60, 63, "person")])
    odd = Sentence(
        "odd",
        0,
        ["obama", "of", "the", "new", "york", "paris", "\u200b", "x"],
        [
            Span(0, 1, "person"),
            Span(0, 1, "location"),
            Span(3, 5, "location"),
            Span(4, 6, "work"),
            Span(0, 8, "work"),  # too long
            Span(5, 7, "person"),  # without a token at its end
        ],
    )
    return [*sentences()[:9], *nested_sentences(), odd, long, Sentence("odd", 1, ["x"], [])]


def direct(model, data):
    """Features of all candidate spans, straight from the network, with their places, window by window."""
    windows = pack_annotated(data, model.packer, model.config.context)
    spans = candidate_spans(windows, model.config.entity_max_length)
    batch = Batch.build(windows, spans)
    network = model.network
    with torch.inference_mode():
        text = network.read(batch)
        parts = [network.encode_spans(batch, spans, text, *chunk) for chunk in network.chunks(spans, ALL)]
        features = torch.cat(parts)
        logits, scored = network.classifier(features), network(batch)
    return windows, spans, features.numpy(), logits, scored


def places(windows, spans):
    sentence, first = windows.word_sentence[spans.first_word], windows.word_index[spans.first_word]
    return list(zip(sentence.tolist(), first.tolist(), (windows.word_index[spans.last_word] + 1).tolist(), strict=True))


@pytest.mark.parametrize("case", TRAINED, ids=str)
def test_every_architecture_that_classifies_spans(case, encoder):
    data = [each for each in data_of_all_kinds() if each.document_id != "odd"]
    model = model_of(case, encoder)
    if case.architecture == "seq_ner.v1":
        with pytest.raises(CoreError) as caught:
            analyse(model, data)
        assert caught.value.code == "representations.none"
        assert caught.value.values["architecture"] == "seq_ner.v1"
        return
    windows, spans, features, logits, scored = direct(model, data)
    if case.options.get("output") != "tags":
        torch.testing.assert_close(logits, scored.logits)  # they are what the classifier takes
    rows = np.arange(1, len(spans), 3)
    np.testing.assert_allclose(span_features(model, windows, spans, rows), features[rows], atol=1e-5)

    gold = {(number, each.start, each.end): each.label for number, s in enumerate(data) for each in s.entities}
    label = np.array([["location", "person", None].index(gold.get(place)) for place in places(windows, spans)])
    found = analyse(model, data, ALL)
    assert found.size == features.shape[1] == model.network.classifier.in_features
    counts = dict(Counter(gold.values())) | {None: len(spans) - len(gold)}
    assert {each.label: each.taken for each in found.norms} == counts
    order = [["location", "person", None].index(each.label) for each in found.norms]
    expected = class_cosines(features.astype(np.float64), label, 3)[np.ix_(order, order)]
    np.testing.assert_allclose(np.array(found.cosines.matrix), expected, atol=1e-5)
    lengths = np.linalg.norm(features, axis=1)
    assert [each.mean for each in found.norms] == pytest.approx([lengths[label == n].mean() for n in order], rel=1e-5)
    assert found.templates.norms == pytest.approx(model.network.classifier.weight.norm(dim=1).tolist(), rel=1e-5)
    assert sum(map(len, found.plane.points.values())) == len(gold)


def naive_overlaps(windows, spans, features, gold):
    """Sums and counts over all pairs of an entity and a neighbour, by loops."""
    window = np.searchsorted(windows.word_offsets, spans.first_word, "right") - 1
    found = list(zip(window.tolist(), places(windows, spans), strict=True))
    sums, pairs = np.zeros((2, RATIOS)), np.zeros((2, RATIOS), int)
    for i, (its_window, (sentence, start, end)) in enumerate(found):
        for j, (other_window, (other_sentence, other_start, other_end)) in enumerate(found):
            if i == j or (its_window, sentence) != (other_window, other_sentence):
                continue
            mine, others = set(range(start, end)), set(range(other_start, other_end))
            between = max(start, other_start) - min(end, other_end)
            if (sentence, start, end) not in gold or between > NEAR:
                continue
            ratio = len(mine & others) / len(mine | others)
            group = next(g for g in range(RATIOS) if ratio <= g / 10 + 1e-9)
            cosine = features[i] @ features[j] / np.linalg.norm(features[i]) / np.linalg.norm(features[j])
            which = int((sentence, other_start, other_end) in gold)
            times = len(gold[sentence, start, end])
            sums[which, group] += times * cosine
            pairs[which, group] += times
    return sums, pairs


@pytest.mark.parametrize("context", ["sentence", "document", "block"])
def test_neighbours_are_those_of_a_double_loop(encoder, context):
    data = data_of_all_kinds()
    model = model_of(CASES[0], encoder, context)
    windows, spans, features, _, _ = direct(model, data)
    gold: dict[tuple, list[str]] = {}
    for number, sentence in enumerate(data):
        for each in sentence.entities:
            gold.setdefault((number, each.start, each.end), []).append(each.label)
    sums, pairs = naive_overlaps(windows, spans, features.astype(np.float64), gold)
    sample = sample_spans(model, data, ALL)
    np.testing.assert_array_equal(sample.pairs.sum(axis=0), pairs)
    np.testing.assert_allclose(sample.cosine_sums.sum(axis=0), sums, atol=1e-3)
    assert pairs[:, 0].sum() > 0
    assert pairs[:, 10].sum() == 0  # a ratio above 0.9 takes more words than an entity may have
    assert not sample.pairs[sample.label == len(sample.labels)].any()
    assert sample.unreachable == 2
    assert sample.sentences == len(data)
    assert dict(zip(sample.labels, sample.seen.tolist(), strict=False))["work"] == 1
    # A span of two labels is in both classes, and no entity in neither.
    assert sample.seen.sum() == len(spans) + 1


def test_the_paper_s_levels_of_overlap():
    """Of "New York University", "New York" has 2/3; of two words and the two after the first, a third."""

    class Words:
        word_offsets = np.array([0, 9])
        word_sentence = np.zeros(9, np.int64)

        def __len__(self):
            return 1

    spans = candidate_spans_of(9, 3)
    at = {(first, last): row for row, (first, last) in enumerate(zip(*spans[1:3], strict=True))}
    of, other, group = neighbours(Words(), Spans(*spans), np.array([at[0, 2]]))
    assert set(of) == {0}
    level = {row: next(name for name, part in LEVELS.items() if part.start <= g < part.stop)
             for row, g in zip(other.tolist(), group.tolist(), strict=True)}  # fmt: skip
    assert level[at[0, 1]] == "strong"
    assert level[at[1, 2]] == "strong"
    assert level[at[1, 3]] == "weak"  # two of four words: 0.5
    assert level[at[2, 2]] == "weak"
    assert level[at[3, 3]] == "none"
    assert level[at[8, 8]] == "none"  # five words between
    assert at[0, 2] not in level


def candidate_spans_of(n_words, longest):
    pairs = np.array([(a, b) for a in range(n_words) for b in range(a, min(a + longest, n_words))]).T
    return (np.array([0, pairs.shape[1]]), *pairs, *pairs)


def test_cosines_of_many_pairs_are_made_in_parts(monkeypatch):
    features = np.random.default_rng(3).normal(size=(20, 7)).astype(np.float32)
    first, second = map(np.array, zip(*combinations(range(20), 2), strict=True))
    whole = pair_cosines(features, first, second)
    monkeypatch.setattr("spanmarker_core.evaluation.representations.span_features._NUMBERS_A_CHUNK", 7 * 11)
    np.testing.assert_array_equal(pair_cosines(features, first, second), whole)


def by_class(sample):
    """Return the content of a sample as plain values."""
    return {
        label: (int(sample.seen[n]), sample.features[sample.label == n], sample.pairs[sample.label == n])
        for n, label in enumerate([*sample.labels, None])
    }


def assert_same(found, expected):
    found, expected = by_class(found), by_class(expected)
    assert list(found) == list(expected)
    for label, (seen, features, pairs) in found.items():
        assert seen == expected[label][0]
        np.testing.assert_allclose(features, expected[label][1], atol=1e-5)
        np.testing.assert_array_equal(pairs, expected[label][2])


@pytest.mark.parametrize("limit", [3, ALL])
def test_a_sample_does_not_depend_on_batches_or_on_the_order_of_documents(encoder, limit, monkeypatch):
    data = data_of_all_kinds()
    model = model_of(CASES[0], encoder)
    expected = sample_spans(model, iter(data), limit)
    monkeypatch.setattr(span_sample, "SENTENCES_A_CALL", 1)
    assert_same(sample_spans(model, data, limit), expected)
    monkeypatch.setattr(span_sample, "BATCH_TOKENS", {"cpu": 1})
    documents = {sentence.document_id: [s for s in data if s.document_id == sentence.document_id] for sentence in data}
    backwards = [sentence for document in reversed(documents.values()) for sentence in document]
    assert_same(sample_spans(model, backwards, limit), expected)


def test_a_limit_takes_a_part_of_what_there_is(encoder):
    data = data_of_all_kinds()
    model = model_of(CASES[0], encoder)
    whole, part = by_class(sample_spans(model, data, ALL)), by_class(sample_spans(model, data, 4))
    for label, (seen, features, _) in part.items():
        assert seen == whole[label][0]
        assert len(features) == min(4, seen)
        # The lowest draws: the first of the whole.
        np.testing.assert_allclose(features, whole[label][1][: len(features)], atol=1e-5)


def test_windows_without_a_drawn_span_are_not_run(encoder, monkeypatch):
    """As the sample fills, later sentences hardly ever hold a lower draw."""
    data = [Sentence(f"d{n}", 0, ["obama", "was", "in", "paris"], [Span(0, 1, "person")]) for n in range(400)]
    model = model_of(CASES[0], encoder)
    monkeypatch.setattr(span_sample, "SENTENCES_A_CALL", 1)
    runs, read = [], model.network.read
    monkeypatch.setattr(model.network, "read", lambda batch: runs.append(len(batch.token_offsets) - 1) or read(batch))
    assert sample_spans(model, data, 5).seen.tolist() == [400, 3600]
    assert 5 < sum(runs) < 120


def test_memory_that_runs_out_makes_smaller_batches(encoder, monkeypatch):
    data = data_of_all_kinds()
    model = model_of(CASES[0], encoder)
    expected = sample_spans(model, data, ALL)
    sizes, read = [], model.network.read

    def limited(batch):
        sizes.append(len(batch.token_ids))
        if sizes[-1] > 100:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return read(batch)

    monkeypatch.setattr(model.network, "read", limited)
    assert_same(sample_spans(model, data, ALL), expected)
    assert max(sizes) > 100
    monkeypatch.setattr(model.network, "read", lambda batch: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        sample_spans(model, data, ALL)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 10**6)), unique=True, max_size=12), st.integers(1, 4))
def test_lowest_draws(drawn, limit):
    label, draw = (np.array([pair[n] for pair in drawn], np.int64) for n in range(2))
    kept = {drawn[row] for row in lowest(label, draw, limit)}
    assert kept == {pair for pair in drawn if sorted(x for x in drawn if x[0] == pair[0]).index(pair) < limit}


def test_errors(encoder):
    model = model_of(CASES[0], encoder)
    with pytest.raises(CoreError, match=r"data\.no_entities"):
        analyse(model, [Sentence("d", 0, ["the", "a"], [])])
    with pytest.raises(CoreError, match=r"data\.no_entities"):
        analyse(model, [Sentence("d", 0, ["the"] * 9, [Span(0, 9, "person")])])
    with pytest.raises(CoreError) as caught:
        analyse(model, sentences(), 0)
    assert (caught.value.code, caught.value.values["value"]) == ("call.bad_span_limit", 0)


def test_a_model_whose_classes_are_other_than_the_data_s(encoder):
    data = [Sentence("d", 0, ["paris", "of", "x"], [Span(0, 1, "PLACE"), Span(0, 3, "PLACE"), Span(2, 3, "THING")])]
    found = analyse(model_of(CASES[0], encoder), data)
    assert found.unknown == ["PLACE", "THING"]
    assert [each.label for each in found.norms] == ["PLACE", "THING", None]
    assert set(found.templates.labels) == {"O", "location", "person"}


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_other_precisions(tiny_bundle, dtype):
    data = data_of_all_kinds()
    expected = analyse(load(tiny_bundle), data, 20)
    found = analyse(load(tiny_bundle, dtype=dtype), data, 20)
    assert [each.taken for each in found.norms] == [each.taken for each in expected.norms]
    assert found.cosines.within != expected.cosines.within
    assert found.cosines.within == pytest.approx(expected.cosines.within, abs=0.05)
    assert found.entity_norm == pytest.approx(expected.entity_norm, rel=0.05)


def test_json_has_no_number_that_json_lacks(encoder):
    data = [Sentence("d", 0, ["paris"], [Span(0, 1, "location")])]
    values = analyse(model_of(CASES[0], encoder), data).to_json({"model": "m"})
    again = json.loads(json.dumps(values, allow_nan=False))
    assert again["format_version"] == 1
    assert again["facts"] == {"model": "m"}
    assert again["norms"][1] == {
        "label": None, "seen": 0, "taken": 0, "zero": 0, "mean": None, "deviation": None, "median": None,
    }  # fmt: skip
    assert again["cosines"]["within"] is None
    assert again["plane"]["points"] == {"location": [[0.0, 0.0]]}

"""Bundles of a sequence head and spans, and the sequence head alone: what they give, and what goes with what."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from seqeval.metrics.sequence_labeling import get_entities

from spanmarker_core.architectures.options import BlNerOptions, SeqNerOptions, read_options
from spanmarker_core.architectures.registry import ARCHITECTURES, options_of
from spanmarker_core.bundle.config import packer_of
from spanmarker_core.bundle.config_checks import check_config
from spanmarker_core.errors import CoreError, UnusableError
from spanmarker_core.inference.tagger import Tagger
from spanmarker_core.spans.decoding import select_pairs
from spanmarker_core.training.fit_gate import fit_gate
from spanmarker_core.windows.packer import Context
from tests.spanmarker_core.models.networks import SENTENCES, TAGGED, WITH_EMPTY, batch_of, case, made
from tests.spanmarker_core.models.test_tags import bio
from tests.support.tiny import GATE, tiny_model


@pytest.mark.parametrize("case", TAGGED, ids=str)
@pytest.mark.parametrize("context", ["sentence", "document", "block"])
def test_tags_give_the_spans_that_can_be_candidates(case, context):
    """One sentence at a time: best tags of the words with a token, joined, but for what goes on from before a cut;
    those kept that are a candidate, whatever their own scores say."""
    config, network, packer = case.build(entity_max_length=3, labels=["work", "O", "person"])
    windows = packer.pack(packer.encode_words(WITH_EMPTY), Context(context))
    batch = batch_of(windows, config)
    with torch.no_grad():
        scores = network(batch)
    assert scores.tags.shape == (len(batch.first_token), 5)
    assert scores.gate is None
    expected = []
    rows = {pair: row for row, pair in enumerate(zip(batch.spans.first_word, batch.spans.last_word, strict=True))}
    head = network.tags
    for start, end in zip(batch.runs[:-1].tolist(), batch.runs[1:].tolist(), strict=True):
        words = [w for w in range(start, end) if windows.word_token_end[w] > windows.word_token_start[w]]
        emissions = scores.tags[words].double()
        chain = np.array([0, len(words)])
        tags = emissions.argmax(-1) if head.crf is None else head.crf.best(emissions, chain)
        for kind, first, last in get_entities([bio(tag) for tag in tags.tolist()]):
            row = rows.get((words[first], words[last]))
            goes_on = first == 0 and windows.word_index[start] > 0 and tags[0] % 2 == 0
            if row is not None and not goes_on:
                expected.append((row, {"LOC": 0, "PER": 2}[kind]))
    assert list(zip(scores.kept.tolist(), scores.labels.tolist(), strict=True)) == expected
    assert len(expected) > 5
    assert torch.isfinite(scores.logits).all()
    probabilities = scores.logits.softmax(-1).numpy()
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-6)
    own = probabilities[np.arange(len(expected)), scores.labels]
    np.testing.assert_allclose(probabilities[:, 1], 1 - own, atol=1e-6)
    assert (own > 0).all()
    assert (own < 0.5).any()  # where "O" is likelier than the tags: they are the head's all the same


@pytest.mark.parametrize("context", ["sentence", "document"])
@pytest.mark.parametrize("kind", ["softmax", "crf"])
def test_entities_end_with_their_sentence_and_belong_to_the_window_of_their_first_word(kind, context):
    """A head that tags every word I-work finds each sentence whole; those of up to 7 words of the own ones are kept."""
    config, network, packer = case("seq_ner.v1", {"tags": kind}).build(entity_max_length=7, max_tokens=40)
    with torch.no_grad():
        network.tags.output.weight.zero_()
        network.tags.output.bias.copy_(10 * torch.nn.functional.one_hot(torch.tensor(6), 7))
    data = [[word] * n for word, n in (("a", 7), ("the", 8), ("of", 1), ("x", 60), ("in", 3))]
    windows = packer.pack(packer.encode_words(data), Context(context))
    batch = batch_of(windows, config)
    with torch.no_grad():
        scores = network(batch)
    spans = batch.spans.take(scores.kept)
    found = zip(windows.word_sentence[spans.first_word], spans.last_word - spans.first_word + 1, strict=True)
    assert sorted(found) == [(0, 7), (2, 1), (4, 3)]
    assert set(scores.labels) == {3}


@pytest.mark.parametrize("kind", ["softmax", "crf"])
@pytest.mark.parametrize(
    ("words", "first", "expected"),
    [
        ("he was in paris york york for it", [0], [(3, 6)]),
        ("he=11 was=11 in=11 paris=11 york=11 york=11 for=11 it=11", [0, 1, 2, 3, 4, 5], [(3, 6)]),
        ("he=11 was=11 in=11 paris=11 york=11 york=11 paris=11 it=11", [0, 1, 2, 3, 4, 5], [(3, 6), (6, 7)]),
        # One word too many for an entity: it is none, and its tail is none.
        ("he paris york york york in paris", [0], [(6, 7)]),
        ("he paris york york york=21 in=20 paris=20", [0, 3, 4, 5], [(6, 7)]),
        # What goes on where a sentence begins, begins there.
        ("york=11 york=11 in=11 paris=11", [0, 1], [(0, 2), (3, 4)]),
    ],
)
def test_an_entity_at_a_cut_comes_back_whole_or_not_at_all(kind, words, first, expected, monkeypatch):
    """Words of so many tokens that a piece has no place for words before its own; a head that knows its words.

    `york=11` is a word of eleven more tokens, `first` the first word of each window.
    """
    config, network, tokenizer = tiny_model(architecture="seq_ner.v1", options={"tags": kind}, entity_max_length=3)
    packer = packer_of(config, tokenizer)
    begins, goes_on = tokenizer.token_to_id("paris"), tokenizer.token_to_id("york")

    def emissions(states, batch):
        ids = batch.token_ids[batch.first_token]
        told = torch.zeros(len(ids), 7)
        told[:, 0] = 3
        told[ids == begins, 1] = told[ids == goes_on, 2] = 6
        return told

    monkeypatch.setattr(network.tags, "emissions", emissions)
    tagger = Tagger(config, packer, network, torch.device("cpu"))
    parts = [word.partition("=") for word in words.split()]
    sentence = [word + "x" * int(more or 0) for word, _, more in parts]
    windows = packer.pack(packer.encode_words([sentence]), Context())
    assert windows.word_index[windows.word_offsets[:-1]].tolist() == first
    assert [(entity.word_start, entity.word_end) for entity in tagger.tag_words([sentence])[0]] == expected


def test_probability_of_softmax_tags_is_their_product():
    config, network, packer = case("seq_ner.v1").build(entity_max_length=3)
    batch = batch_of(packer.pack(packer.encode_words(SENTENCES), Context()), config)
    with torch.no_grad():
        scores = network(batch)
    best = scores.tags.softmax(-1).amax(-1)
    spans = batch.spans.take(scores.kept)
    words = zip(spans.first_word, spans.last_word, strict=True)
    expected = [float(best[first : last + 1].prod()) for first, last in words]
    found = scores.logits.softmax(-1)[torch.arange(len(expected)), torch.from_numpy(scores.labels)]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("architecture", ["span_marker.v1", "span_ner.v1"])
def test_a_head_of_tags_leaves_the_spans_as_they_are(architecture):
    config, network, packer = made(architecture=architecture)
    bundled_config, bundled, _ = made({"tags": "crf"}, architecture=architecture)
    weights = dict(network.state_dict())
    own = {name: weight for name, weight in bundled.state_dict().items() if name.startswith("tags.")}
    bundled.load_state_dict({**weights, **own})
    batch = batch_of(packer.pack(packer.encode_words(SENTENCES), Context()), config)
    with torch.no_grad():
        found, expected = bundled(batch), network(batch)
    assert torch.equal(found.logits, expected.logits)
    assert expected.tags is None
    assert found.tags.shape == (len(batch.first_token), 2 * (len(bundled_config.labels) - 1) + 1)


def test_defaults_are_the_papers():
    assert read_options(BlNerOptions, {}) == BlNerOptions(
        tags="softmax", output="spans", representation="hybrid", word="max", width_size=50, mlp_layers=1, mlp_size=None
    )
    _, network, _ = case("bl_ner.v1").build()
    assert network.classifier.in_features == 4 * 32 + 50


@pytest.mark.parametrize(
    ("architecture", "options", "reason"),
    [
        *((name, {"output": "tags", "tags": None}, "tags") for name in ARCHITECTURES),
        ("seq_ner.v1", {"output": "spans"}, "one of tags"),
        ("bl_ner.v1", {"tags": "hmm"}, "softmax, crf"),
        ("seq_ner.v1", {"representation": "hybrid"}, "not an option"),
    ],
)
def test_options_that_do_not_fit_are_refused(architecture, options, reason):
    with pytest.raises(UnusableError, match=reason):
        options_of(architecture, options)


@pytest.mark.parametrize("case", TAGGED, ids=str)
def test_a_gate_is_refused_where_it_would_have_no_spans_to_choose(case):
    config, _, _ = case.build()
    check_config(config)
    with pytest.raises(UnusableError, match="no spans to select from"):
        check_config(replace(config, gate=GATE))


def test_no_gate_is_fitted_to_tags():
    config, network, tokenizer = tiny_model(architecture="seq_ner.v1")
    packer = packer_of(config, tokenizer)
    tagger = Tagger(config, packer, network, torch.device("cpu"))
    with pytest.raises(CoreError, match=r"gate.no_choice"):
        fit_gate(tagger, packer.pack(packer.encode_words(SENTENCES), Context()), 0.99)


def test_labels_that_a_model_chose_are_the_candidates():
    probabilities = np.array([[0.7, 0.3, 0.0], [0.1, 0.9, 0.0], [0.6, 0.0, 0.4]])
    chosen = np.array([1, 1, 2])
    for thresholds, expected in (
        (None, [0, 1, 2]),
        (np.array([0.35] * 3), [1, 2]),
        (np.array([0.0, 2.0, 0.0]), [2]),
        (np.array([0.0, 0.0, 0.0]), [0, 1, 2]),
    ):
        spans, labels = select_pairs(probabilities, 0, thresholds, chosen)
        assert spans.tolist() == expected
        assert labels.tolist() == chosen[expected].tolist()


@pytest.mark.parametrize("case", TAGGED, ids=str)
def test_tags_are_decoded_flat_and_not_otherwise(case):
    config, network, packer = case.build()
    tagger = Tagger(config, packer, network, torch.device("cpu"))
    assert tagger.tag_words(SENTENCES, decoder="flat.v1") == tagger.tag_words(SENTENCES)
    for decoder in ("nested.v1", "all.v1"):
        with pytest.raises(CoreError, match=r"call\.flat_tags"):
            tagger.tag_words(SENTENCES, decoder=decoder)
        with pytest.raises(UnusableError, match="decoder is"):
            check_config(replace(config, decoder=decoder))


def test_a_tagger_takes_the_labels_of_tags_or_a_threshold():
    config, network, tokenizer = tiny_model(architecture="seq_ner.v1")
    tagger = Tagger(config, packer_of(config, tokenizer), network, torch.device("cpu"))
    every = [entity for found in tagger.tag_words(WITH_EMPTY) for entity in found]
    middle = float(np.median([entity.score for entity in every]))
    assert any(entity.score < 0.5 for entity in every)
    some = [entity for found in tagger.tag_words(WITH_EMPTY, threshold=middle) for entity in found]
    assert some == [entity for entity in every if entity.score >= middle]
    # Nothing is scored, so there is nothing that a gate could have turned away.
    assert tagger.work["scored_candidates"] == tagger.work["candidates"] == 0 < tagger.work["tokens"]


def test_sequence_options_name_their_head():
    assert read_options(SeqNerOptions, {}) == SeqNerOptions(tags="softmax", output="tags")

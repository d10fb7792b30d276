"""Sentences that share a window are tagged as each would be in a window of its own; and `block`, end to end."""

import numpy as np
import pytest

from spanmarker_core import load
from spanmarker_core.data import Sentence, Span
from spanmarker_core.evaluation.evaluate import evaluate
from spanmarker_core.training import train
from spanmarker_core.windows.encoded import EncodedSentences
from spanmarker_core.windows.packer import Context
from spanmarker_core.windows.plan import Plan
from tests.support.tiny import tiny_bundle
from tests.support.training import SETTINGS, quiet, sentences

SENTENCES = [
    ["Barack", "Obama", "flew", "to", "Paris", "."],
    ["\u2063"],
    ["It", "was", "in", "New", "York"],
    [],
    ["Zürich"],
    ["he", "and", "she", "flew", "to", "London", "on", "the", "A380", "of", "Müller"],
] * 3


def alone(plan: Plan) -> Plan:
    """The same windows, each as often as it has sentences, with one of them each."""
    times = plan.sentence_end - plan.sentence_start
    sentence = np.arange(times.sum())
    shown = (np.repeat(values, times) for values in (plan.document, plan.token_start, plan.token_end))
    document, token_start, token_end = shown
    return Plan(document, sentence, sentence + 1, token_start, token_end)


def by_span(candidates):
    keys = ("sentence", "word_start", "word_end", "label")
    rows = zip(*(getattr(candidates, key).tolist() for key in keys), strict=True)
    return dict(zip(rows, candidates.score.tolist(), strict=True))


@pytest.mark.parametrize("context", [Context("document"), Context("document", 2, 1), Context("block")])
def test_scores_are_those_of_windows_for_each_sentence(context, tmp_path):
    model = load(tiny_bundle(tmp_path / "bundle", max_tokens=64))
    joined = EncodedSentences.join([model.packer.encode_words(SENTENCES)])
    plan = model.packer.plan(joined.token_offsets, np.array([0, 4, 4, len(SENTENCES)]), context)
    shared, unshared = (
        model.packer.windows(joined, windows, sentence_ids=np.arange(len(SENTENCES))) for windows in (plan, alone(plan))
    )
    if context.max_prev is None:
        assert len(shared) < len(unshared)
    found, expected = by_span(model.score(shared, 0.0)), by_span(model.score(unshared, 0.0))
    assert len(expected) > 300
    assert found == pytest.approx(expected, abs=1e-6)


def keys(tagged):
    return [[(e.label, e.word_start, e.word_end, e.sentence) for e in entities] for entities in tagged]


@pytest.mark.parametrize("max_tokens", [32, 48])
def test_blocks_find_every_candidate_once(tmp_path, max_tokens):
    model = load(tiny_bundle(tmp_path / "bundle", max_tokens=max_tokens))
    documents = [number // 7 for number in range(len(SENTENCES))]
    found = model.tag_words(SENTENCES, document_ids=documents, context="block", threshold=0.0, decoder="all.v1")
    expected = model.tag_words(SENTENCES, document_ids=documents, context="sentence", threshold=0.0, decoder="all.v1")
    assert keys(found) == keys(expected)
    text = ". ".join(" ".join(words) for words in SENTENCES)
    (found,) = model.tag_text([text], context="block", threshold=0.0, decoder="all.v1")
    (expected,) = model.tag_text([text], context="sentence", threshold=0.0, decoder="all.v1")
    assert [(e.char_start, e.char_end, e.text) for e in found] == [(e.char_start, e.char_end, e.text) for e in expected]
    assert all(entity.text == text[entity.char_start : entity.char_end] for entity in found)


def test_a_document_that_fits_is_tagged_alike_in_a_block_and_with_document_context(tmp_path):
    model = load(tiny_bundle(tmp_path / "bundle", max_tokens=64))
    arguments = {"document_ids": ["a"] * 6, "threshold": 0.0, "decoder": "all.v1"}
    assert model.tag_words(SENTENCES[:6], context="block", **arguments) == model.tag_words(
        SENTENCES[:6], context="document", **arguments
    )


@pytest.mark.slow
def test_training_in_blocks(encoder, tmp_path):
    data = [
        Sentence(f"d{number // 10}", number % 10, sentence.words, sentence.entities)
        for number, sentence in enumerate(sentences())
    ]
    data.append(Sentence("d4", 10, ["the"] * 60 + ["paris"], [Span(60, 61, "location")]))
    settings = SETTINGS.replace(context="block", learning_rate=5e-3, batch_size=2, epochs=2)
    result = train(data, data[:10], encoder, tmp_path / "bundle", settings, log=quiet)
    model = load(tmp_path / "bundle")
    assert model.config.context == Context("block")
    assert "block" in (tmp_path / "bundle" / "README.md").read_text(encoding="utf-8")
    assert result.steps < 2 * len(data) / 2 / 2  # windows are shared
    assert evaluate(model, data[:10]) == result.dev

"""Fitting a gate to a finished model: what it learns from, what it promises, what it leaves alone."""

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
import torch

from spanmarker_core import load
from spanmarker_core.bundle.writer import save_bundle, stored_dtype
from spanmarker_core.card import card_files, model_card
from spanmarker_core.data import Sentence, Span
from spanmarker_core.data.windows import pack_annotated
from spanmarker_core.errors import CoreError
from spanmarker_core.evaluation.gate import GateScores
from spanmarker_core.training import fit_gate as fitting
from spanmarker_core.training.fit_gate import fit_gate

WORDS = ["the", "of", "in", "was", "flew", "paris", "london", "müller", "zürich", "obama", "barack", "she", "it", "at"]


def sentences(count: int = 240, words: int = 9) -> list[Sentence]:
    random = np.random.default_rng(3)
    return [
        Sentence(f"d{number // 6}", number % 6, [WORDS[i] for i in random.integers(0, len(WORDS), words)], [])
        for number in range(count)
    ]


def with_entities(model, plain: list[Sentence]) -> list[Sentence]:
    """The sentences with the first of each ten entities that the model finds in them."""
    found = model.tag_words([sentence.words for sentence in plain])
    spans = [[Span(e.word_start, e.word_end, e.label) for e in entities[::10]] for entities in found]
    return [replace(sentence, entities=entities) for sentence, entities in zip(plain, spans, strict=True)]


def packed(model, plain):
    """Windows of the sentences; documents are numbered in their order."""
    windows = pack_annotated(plain, model.packer, model.config.context)
    numbers = np.array([int(plain[i].document_id[1:]) for i in windows.word_sentence[windows.word_offsets[:-1]]])
    windows.document[:] = numbers
    return windows


@pytest.fixture
def model(tiny_bundle):
    return load(tiny_bundle)


def fit(model, plain, target=0.98, **options):
    with mock.patch.object(fitting, "_STEPS", 300):
        return fit_gate(model, packed(model, plain), target, log=lambda line: None, **options)


@pytest.fixture(scope="module")
def fits(tiny_bundle):
    """Two models, each with what was fitted to it."""
    models = [load(tiny_bundle) for _ in range(2)]
    annotated = with_entities(models[0], sentences()[:60])
    return [(model, fit(model, sentences(), annotated=annotated)) for model in models]


@pytest.mark.slow
def test_the_target_is_reached_in_held_out_documents_with_few_spans(fits):
    (model, fitted), plain = fits[0], sentences()
    gate = fitted.config.gate
    assert fitted.n_entities >= fitting.MIN_ENTITIES
    assert fitted.n_passing >= 0.98 * fitted.n_entities
    chosen = next(point for point in gate["curve"] if point["threshold"] == gate["threshold"])
    assert chosen["recall_of_model"] >= 0.975
    assert chosen["kept"] < 1
    # Fit, validation and held-out documents are dealt out whole, and each document once.
    parts = fitting._parts(packed(model, plain))
    documents = [set(packed(model, plain).document[part]) for part in parts]
    assert sorted(number for part in documents for number in part) == list(range(40))
    # Said of the held-out documents alone, by the gate as it is in the network.
    passes = GateScores(model, packed(model, plain).take(parts[2])).entity_passes()
    assert (len(passes), (passes >= gate["threshold"]).sum()) == (fitted.n_entities, fitted.n_passing)


def test_the_curve_goes_from_everything_to_little_and_gold_adds_recall_and_f1(fits):
    curve = fits[0][1].config.gate["curve"]
    assert all(set(point) == {"threshold", "kept", "recall_of_model", "recall_of_gold", "f1"} for point in curve)
    first = {"threshold": 0.0, "kept": 1.0, "recall_of_model": 1.0, "recall_of_gold": 1.0}
    assert curve[0] == {**curve[0], **first}
    assert 0 < curve[0]["f1"] < 1
    for column in ("kept", "recall_of_model"):
        values = [point[column] for point in curve]
        assert values == sorted(values, reverse=True)


def test_the_model_stays_as_it_is_and_the_fit_can_be_repeated(fits, tiny):
    assert fits[0][1].config.gate == fits[1][1].config.gate
    states, before = [model.network.state_dict() for model, _ in fits], tiny.network.state_dict()
    for name, weight in states[0].items():
        assert torch.equal(weight, before.get(name, states[1][name]))


@pytest.mark.slow
def test_rounding_weights_comes_before_measuring(model, tmp_path):
    fitted = fit(model, sentences(), weight_dtype="float16")
    arguments = (fitted.config, model.network, model.packer.tokenizer, model_card(fitted.config), "float16")
    save_bundle(tmp_path / "b", *arguments, files=card_files(fitted.config))
    assert stored_dtype(tmp_path / "b") == "float16"
    again = load(tmp_path / "b", gate="on")
    for name, weight in model.network.gate.state_dict().items():
        assert torch.equal(weight, again.network.gate.state_dict()[name])
    assert (tmp_path / "b" / "gate.svg").read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plain", "annotated", "code"),
    [
        (sentences(12), None, "gate.too_few_documents"),
        (sentences(24, words=2), None, "gate.too_few_entities"),
        (sentences(12), [Sentence("d", 0, ["Paris"], [Span(0, 1, "LOC")])], "data.no_common_label"),
    ],
)
def test_too_little_text_and_gold_of_other_labels_are_refused(model, plain, annotated, code):
    with pytest.raises(CoreError, match=code):
        fit(model, plain, annotated=annotated)

"""Fitting a gate to a finished model: what it learns from, what it promises, what it leaves alone."""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest
import torch

from spanmarker_core import load
from spanmarker_core.bundle.writer import save_bundle, stored_dtype
from spanmarker_core.card import card_files, model_card
from spanmarker_core.card.gate_curve import curve_svg
from spanmarker_core.data import Sentence, Span
from spanmarker_core.data.windows import pack_annotated
from spanmarker_core.errors import CoreError
from spanmarker_core.evaluation.gate import GateScores
from spanmarker_core.training import fit_gate as fitting
from spanmarker_core.training.fit_gate import fit_gate
from tests.support.tiny import GATE, tiny_model

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


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(fitting, "_STEPS", 300)


def fit(model, plain, target=0.98, **options):
    return fit_gate(model, packed(model, plain), target, log=lambda line: None, **options)


def test_the_target_is_reached_in_held_out_documents_with_few_spans(model, quick):
    plain = sentences()
    fitted = fit(model, plain)
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


def test_the_curve_goes_from_everything_to_little(model, quick):
    curve = fit(model, sentences()).config.gate["curve"]
    assert curve[0] == {"threshold": 0.0, "kept": 1.0, "recall_of_model": 1.0}
    for column in ("kept", "recall_of_model"):
        values = [point[column] for point in curve]
        assert values == sorted(values, reverse=True)


def test_the_model_stays_as_it_is_and_the_fit_can_be_repeated(tiny_bundle, quick):
    models = [load(tiny_bundle) for _ in range(2)]
    before = {name: weight.clone() for name, weight in models[0].network.state_dict().items()}
    gates = [fit(model, sentences()).config.gate for model in models]
    assert gates[0] == gates[1]
    states = [model.network.state_dict() for model in models]
    for name, weight in states[0].items():
        assert torch.equal(weight, before.get(name, states[1][name]))


def test_gold_puts_recall_and_f1_on_the_curve(model, quick):
    plain = sentences()
    annotated = with_entities(model, plain[:60])
    gate = fit(model, plain, annotated=annotated).config.gate
    columns = {"threshold", "kept", "recall_of_model", "recall_of_gold", "f1"}
    assert all(set(point) == columns for point in gate["curve"])
    assert gate["curve"][0]["recall_of_gold"] == 1.0
    assert 0 < gate["curve"][0]["f1"] < 1


def test_gold_of_other_labels_is_refused_before_any_work(model):
    other = [Sentence("d", 0, ["Paris"], [Span(0, 1, "LOC")])]
    with pytest.raises(CoreError, match=r"data.no_common_label"):
        fit(model, sentences(12), annotated=other)


def test_rounding_weights_comes_before_measuring(model, tmp_path, quick):
    fitted = fit(model, sentences(), weight_dtype="float16")
    arguments = (fitted.config, model.network, model.packer.tokenizer, model_card(fitted.config), "float16")
    save_bundle(tmp_path / "b", *arguments, files=card_files(fitted.config))
    assert stored_dtype(tmp_path / "b") == "float16"
    again = load(tmp_path / "b", gate="on")
    for name, weight in model.network.gate.state_dict().items():
        assert torch.equal(weight, again.network.gate.state_dict()[name])
    assert (tmp_path / "b" / "gate.svg").read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.parametrize(
    ("plain", "code"),
    [(sentences(12), "gate.too_few_documents"), (sentences(24, words=2), "gate.too_few_entities")],
)
def test_too_little_text_is_refused(model, quick, plain, code):
    with pytest.raises(CoreError, match=code):
        fit(model, plain)


def point(threshold, kept, **others):
    return {"threshold": threshold, "kept": kept, "recall_of_model": 1 - threshold / 4, **others}


CURVE = [point(0.0, 1.0, f1=0.5), point(0.1, 0.08, f1=0.51), point(0.4, 0.0, f1=0.2)]


def test_the_drawing_is_xml_with_the_chosen_point_named():
    drawing = curve_svg({**GATE, "threshold": 0.1, "curve": CURVE})
    root = ET.fromstring(drawing)
    texts = [element.text for element in root.iter() if element.tag.endswith("}text")]
    assert "threshold 0.1: 8 % of the spans, 97.5% found" in texts
    assert {"100 %", "10 %", "entities of the ungated model", "F1"} <= set(texts)
    assert "gold entities" not in texts
    for element in root.iter():  # nothing lies outside, nothing is not a number
        for name in ("x", "y", "cx", "cy"):
            assert 0 <= float(element.get(name, 0)) <= 640


@pytest.mark.parametrize("curve", [[], CURVE[-1:], CURVE[:1]])
def test_a_poor_curve_can_be_drawn(curve):
    assert ET.fromstring(curve_svg({**GATE, "curve": curve})).tag.endswith("svg")


@pytest.mark.parametrize(
    ("trained", "words"),
    [("joint", "trained together with the model"), ("fitted", "`--gate on` some entities are lost")],
)
def test_the_card_tells_what_the_gate_is(trained, words):
    config, *_ = tiny_model(gate={**GATE, "trained": trained, "threshold": 0.1, "curve": CURVE}, pair_layers=1)
    card = model_card(config)
    assert words in card
    assert "| **0.1** | **8.0%** | **97.5%** | **51.0%** |" in card
    assert "![What the gate keeps at each threshold](gate.svg)" in card
    assert "- **Markers of a Span See Each Other:** in the top layer only" in card
    assert list(card_files(config)) == ["gate.svg"]


def test_the_card_of_a_model_without_a_gate_has_no_drawing():
    config, *_ = tiny_model()
    assert card_files(config) == {}
    assert "gate.svg" not in model_card(config)
    assert json.loads(config.to_json())["gate"] is None

"""The gate on a card: its curve as a drawing and a table."""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from spanmarker_core.card import card_files, model_card
from spanmarker_core.card.gate_curve import curve_svg
from tests.support.tiny import GATE, tiny_model


def point(threshold, kept, **others):
    return {"threshold": threshold, "kept": kept, "recall_of_model": 1 - threshold / 4, **others}


CURVE = [point(0.0, 1.0, f1=0.5), point(0.1, 0.08, f1=0.51), point(0.4, 0.0, f1=0.2)]


def test_the_drawing_is_xml_with_the_chosen_point_named():
    drawing = curve_svg({**GATE, "threshold": 0.1, "curve": CURVE})
    root = ET.fromstring(drawing)
    texts = [element.text for element in root.iter() if element.tag.endswith("}text")]
    assert "threshold 0.1: 8 % of the spans, 97.5% of the entities" in texts
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
    [("joint", "trained together with the model"), ("fitted", "`--gate on`, some entities are lost")],
)
def test_the_card_tells_what_the_gate_is(trained, words):
    config, *_ = tiny_model(gate={**GATE, "trained": trained, "threshold": 0.1, "curve": CURVE}, pair_layers=1)
    card = model_card(config)
    assert words in card
    assert "| **0.1** | **8.0%** | **97.5%** | **51.0%** |" in card
    assert "![Spans and entities kept by the gate at each threshold](gate.svg)" in card
    assert "- **Attention between the Markers of a Span:** in the top layer only" in card
    assert card_files(config) == {"gate.svg": curve_svg(config.gate)}
    without = replace(config, gate=None)
    assert card_files(without) == {}
    assert "gate.svg" not in model_card(without)
    assert json.loads(without.to_json())["gate"] is None

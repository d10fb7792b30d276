"""The card holds whatever facts a bundle has: other people's texts, other types, fewer of them."""

import json
from dataclasses import replace

import pytest

from spanmarker_core.gate_curve import curve_svg
from spanmarker_core.model_card import card_files, model_card
from tests.tiny import GATE, tiny_model

NASTY = "# a|b\n---\r\n\u2028<script>"
TEXTS = ("name", "description", "licence", "licence_id", "training_data", "encoder_name", "not_for")
MEASURED = {"train_sentences": 3, "train_entities": 2, "steps": 9, "settings": {"seed": 1, "scheme|": NASTY}}


def card(**facts):
    return model_card(replace(tiny_model()[0], facts=facts))


def test_texts_can_not_break_the_page():
    page = card(**dict.fromkeys(TEXTS, NASTY), **MEASURED)
    lines = page.split("\n")
    assert [number for number, line in enumerate(lines) if line == "---"] == [0, 5]
    assert lines[4] == 'license: "# a|b --- <script>"'
    assert lines[7:10] == ["# # a\\|b --- \\<script>", "", "\\# a\\|b --- \\<script>"]
    assert "| licence | # a\\|b --- \\<script> |" in lines
    assert "- scheme\\|: # a\\|b --- \\<script>" in lines
    assert len(page.splitlines()) == len(card(**dict.fromkeys(TEXTS, "x"), **MEASURED).splitlines())


@pytest.mark.parametrize(
    ("licence", "line"),
    [
        ("cc-by-4.0", "cc-by-4.0"),
        ("a: b", '"a: b"'),
        ('"MIT"', json.dumps('"MIT"')),
        ("---", '"---"'),
        ("", '""'),
        (None, "unknown"),
    ],
)
def test_the_licence_is_one_yaml_value(licence, line):
    assert f"\nlicense: {line}\n---\n" in card(licence_id=licence)


@pytest.mark.parametrize("other", ["text", 3, None, [1], {"a": 1}, True, float("nan"), 10**400, "\ud800"])
def test_facts_of_other_types_are_no_crash(other):
    names = (*TEXTS, *MEASURED, "gate", "train_seconds", "dev_sentences", "dev_precision", "dev_recall", "dev_f1")
    for name in names:
        model_card(replace(tiny_model(gate=GATE)[0], facts={**MEASURED, name: other})).encode()
    facts = {**dict.fromkeys(names, other), "gate": dict.fromkeys(("sentences", "documents", "target_recall"), other)}
    model_card(replace(tiny_model(gate=GATE)[0], facts=facts)).encode()


def test_seconds_are_told_where_they_are_known():
    assert "\n3 sentences with 2 entities, 9 steps.\n" in card(**MEASURED)
    assert "\n3 sentences with 2 entities, 9 steps, 12 s.\n" in card(**MEASURED, train_seconds=12.3)


def test_a_joint_curve_has_no_recall_of_an_ungated_model():
    curve = [{"threshold": t, "kept": 0.1 - t / 10, "recall_of_gold": 0.9 - t, "f1": 0.7} for t in (0.1, 0.3, 0.5)]
    config = tiny_model(gate={**GATE, "trained": "joint", "threshold": 0.3, "curve": curve})[0]
    page = model_card(config)
    assert "| threshold | spans kept | of gold entities | F1 |" in page
    assert "| **0.3** | **7.0%** | **60.0%** | **70.0%** |" in page
    assert card_files(config) == {"gate.svg": curve_svg(config.gate)}
    assert "threshold 0.3: 7 % of the spans, 60.0% found" in curve_svg(config.gate)

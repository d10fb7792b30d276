"""The description of a model on its card: architecture, threshold, paper and gate."""

from dataclasses import replace

import pytest

from spanmarker_core.architectures.registry import ARCHITECTURES, options_of
from spanmarker_core.card import model_card
from tests.support.tiny import GATE, NO_MARKERS, tiny_model

PAIRED = "of up to 4 words is classified with a pair of markers that see the text but are not"


@pytest.mark.parametrize(
    ("name", "options", "gate", "said"),
    [
        ("span_marker.v1", {}, None, PAIRED),
        ("span_marker.v1", {"attention": "text_to_markers"}, None, "markers that see the text and are seen by it"),
        ("span_marker.v1", {"tags": "crf", "output": "tags"}, None, "every word gets a tag, and consecutive tags"),
        ("span_marker.v1", {"tags": "crf"}, None, "not seen by it; word tags were trained together with it"),
        ("dspert.v1", {"span_layers": 0}, None, "from an aggregate of the states of its tokens"),
        ("span_ner.v1", {}, {**GATE, "ends": False}, "which words may start an entity. Only spans that begin at"),
        ("span_ner.v1", {}, GATE, "which may end one. Only spans between two such words"),
    ],
)
def test_a_card_says_how_a_model_works(name, options, gate, said):
    markers = {} if name == "span_marker.v1" else NO_MARKERS
    config = replace(tiny_model("bert")[0], architecture=name, options=options, gate=gate, **markers)
    page = model_card(config, {})
    assert said in page
    assert ("Markers of a Span:" in page) == (name == "span_marker.v1" and "output" not in options)
    kind = page.split("- **Model Type:** ")[1].split(" (")[0]
    assert f"# {kind[0].upper()}{kind[1:]} model\n" in page


@pytest.mark.parametrize(
    ("threshold", "of_tags", "of_spans"),
    [
        (None, "none: all entities from the tags", "none: a span is an entity if its best label is not O"),
        (0.4, "0.4, for entities from tags", "0.4, regardless of the score of O"),
        ({"person": 0.4}, "person 0.4", "person 0.4"),
    ],
)
def test_a_card_says_what_a_threshold_is_of(threshold, of_tags, of_spans):
    config = replace(tiny_model("bert")[0], threshold=threshold)
    overlap = "- The output has no overlapping entities"
    page = model_card(config, {})
    assert f"- **Score Threshold:** {of_spans}\n" in page
    assert f"{overlap}: of those that overlap, it contains the one with the higher score." in page
    page = model_card(replace(config, options={"tags": "crf", "output": "tags"}), {})
    assert f"- **Score Threshold:** {of_tags}\n" in page
    assert f"{overlap}, because each word has one tag." in page


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_card_tells_of_its_architecture_and_cites_its_paper(name):
    options = options_of(name, {})
    told = {"group": 64} if name == "pl_marker.v1" else {}
    config = tiny_model("bert", architecture=name, options=told)[0]
    settings = {"architecture": name, "epochs": 3, "options": told}
    page = model_card(replace(config, facts={"settings": settings}), {})
    kind = page.split("This is a ")[1].split(" model for")[0]
    assert f"- **Model Type:** {kind} ({name})" in page
    assert ("Markers of a Span:" in page) == options.markers
    assert page.count("- **Paper:** ") == page.count("author = {") >= 1
    assert ("[options]\ngroup = 64" in page) == ("**Option group:** 64" in page) == bool(told)

"""Parts and paragraphs hold each character and each entity of a text once."""

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.browse import parts as module
from pipelines.browse.parts import in_sentence, paragraphs, part_start, part_with, parts_of


def entity(start, end, text, number=0, label="person"):
    return {"char_start": start, "char_end": end, "text": text[start:end], "label": label, "row": number, "score": 0.9}


def crossing_of(entities):
    def crossing(at):
        return min((e["char_start"] for e in entities if e["char_start"] < at < e["char_end"]), default=None)

    return crossing


def shown_text(markup):
    """Return the text that a reader sees, without labels."""
    return html.unescape(re.sub("<[^>]*>", "", re.sub("<b>.*?</b>", "", str(markup))))


spans = st.lists(st.tuples(st.integers(0, 150), st.integers(1, 12)), max_size=25)


@given(text=st.text(alphabet="ab <\n", min_size=160, max_size=160), spans=spans)
def test_parts_follow_each_other_and_cut_no_entity(text, spans):
    entities = [entity(start, min(start + length, len(text)), text) for start, length in spans]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PART", 40)
        patch.setattr(module, "_BACK", 20)
        patch.setattr(module, "_BACK_TO_SPACE", 8)
        count = parts_of(len(text))
        edges = [part_start(number, len(text), text, crossing_of(entities)) for number in range(count + 1)]
        assert edges[0] == 0
        assert edges[-1] == len(text)
        assert edges == sorted(set(edges))
        for each in entities:
            number = part_with(each["char_start"], edges.__getitem__, count)
            assert edges[number] <= each["char_start"] < edges[number + 1]
            # Only chains of entities that overlap for half a part and more are cut.
            if each["char_end"] > edges[number + 1]:
                chain = [e for e in entities if e["char_start"] < edges[number + 1] < e["char_end"]]
                assert min(e["char_start"] for e in chain) < (number + 1) * 40 - 20


@given(text=st.text(alphabet="ab <&\n", min_size=170, max_size=170), spans=spans, window=st.integers(0, 80))
def test_paragraphs_hold_the_text_and_mark_each_entity(text, spans, window):
    entities = [entity(start, min(start + length, len(text)), text, n) for n, (start, length) in enumerate(spans)]
    start, end = window, window + 80
    inside = sorted(
        (e for e in entities if e["char_start"] < end and e["char_end"] > start),
        key=lambda e: (e["char_start"], -e["char_end"]),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_MARKS", 2)
        found = paragraphs(text, start, end, inside, lambda label: 0, inside[0] if inside else None)
    seen = "".join(shown_text(paragraph.text).replace("↵", "\n") for paragraph in found)
    assert re.sub(r"\s", "", seen) == re.sub(r"\s", "", text[start:end])
    marked = "".join(str(paragraph.text) for paragraph in found)
    blank = [e for e in inside if not text[max(e["char_start"], start) : min(e["char_end"], end)].strip()]
    if not blank:
        assert marked.count("<b>person 0.90</b>") == len(inside)
        assert sum(paragraph.chosen for paragraph in found) == (bool(inside) and inside[0]["char_start"] >= start)


def test_a_line_is_a_paragraph_and_the_chosen_entity_is_pointed_out():
    text = "Ann slept.\n\nBob in\nYork."
    entities = [entity(0, 3, text, 0), entity(12, 23, text, 1), entity(19, 23, text, 2)]
    first, second = paragraphs(text, 0, len(text), entities, lambda label: 0, entities[2])
    assert str(first.text) == '<bdi><mark class="entity t0 short">Ann<b>person 0.90</b></mark> slept.</bdi>'
    assert (first.chosen, first.after_gap) == (False, False)
    assert (second.chosen, second.after_gap) == (True, True)
    assert shown_text(second.text) == "Bob in\nYork."
    assert "this one" in second.text


def test_lines_as_windows_ends_them_show_no_more_than_others():
    text = "Ann slept.\r\nBob\rtoo.\r\n"
    found = paragraphs(text, 0, len(text), [entity(0, 3, text)], lambda label: 0)
    assert [shown_text(paragraph.text) for paragraph in found] == ["Ann slept.", "Bob\rtoo."]


def test_a_part_full_of_entities_is_drawn_quickly():
    text = "ab, " * 3000
    entities = [entity(at, at + 2, text, at) for at in range(0, len(text), 4)]
    (found,) = paragraphs(text, 0, len(text), entities, lambda label: 0)
    assert str(found.text).count("<mark") == 3000


def test_a_sentence_is_found_in_a_long_text():
    text = "He left. " * 5000 + "Ann met Bob in York. " + "He came. " * 5000
    start = text.index("York")
    assert shown_text(in_sentence(text, entity(start, start + 4, text), "en", 0)) == "Ann met Bob in York."


def test_a_word_of_a_megabyte_is_cut():
    text = "x" * (1 << 20)
    found = in_sentence(text, entity(0, len(text), text), "en", 0)
    assert len(found) < 1000
    assert "…" in found

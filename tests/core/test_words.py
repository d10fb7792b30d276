import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanmarker_core.words import split_words


def words(text):
    return [text[start:end] for start, end in zip(*split_words(text), strict=True)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\t", []),
        ("The U.S. team's 10,000 fans.", ["The", "U.S.", "team", "'s", "10,000", "fans", "."]),
        (
            "Rolls-Royce, J. K. Smith at 7:30 (etc.)",
            ["Rolls", "-", "Royce", ",", "J.", "K.", "Smith", "at", "7:30", "(", "etc", ".", ")"],
        ),
        ("Müller’s Zürich", ["Müller", "’s", "Zürich"]),
        ("東京2020年", ["東", "京", "2020", "年"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("สวัสดี", ["ส", "วั", "ส", "ดี"]),
        ("a👩‍👩‍👧b", ["a", "👩‍👩‍👧", "b"]),
        ("a\u2063 \u2063", ["a", "\u2063", "\u2063"]),
        ("a\x00b", ["a", "\x00", "b"]),
        ("e\u0301tude", ["e\u0301tude"]),
        ("\u1112\u1161\u11ab\u1100\u1173\u11af ﬁne", ["\u1112\u1161\u11ab\u1100\u1173\u11af", "ﬁne"]),
        ("مرحبا بالعالم", ["مرحبا", "بالعالم"]),
    ],
)
def test_examples(text, expected):
    assert words(text) == expected


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_words_and_white_space_rebuild_the_text(text):
    starts, ends = split_words(text)
    position, rebuilt = 0, ""
    for start, end in zip(starts, ends, strict=True):
        gap = text[position:start]
        assert not gap or gap.isspace() or re.fullmatch(r"\s*", gap)
        assert start < end
        rebuilt += gap + text[start:end]
        position = end
    assert rebuilt + text[position:] == text
    assert re.fullmatch(r"\s*", text[position:])

import re

import pytest
import regex
from hypothesis import example, given
from hypothesis import strategies as st

from spanmarker_core.text.words import _RUN, _UNSPACED, split_words


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


#: What each word is, told without regard to time: `words.v1` as it was first written.
PLAIN = regex.compile(
    rf"""
      (?:\p{{L}}\.)+\p{{L}}?(?!{_RUN})
    | [{_UNSPACED}]\p{{M}}*
    | \p{{N}}+(?:[.,:]\p{{N}}+)+(?!{_RUN})
    | ['’](?:[sStTdDmM]|re|RE|ve|VE|ll|LL)(?!{_RUN})
    | {_RUN}+
    | (?![\s\x1c-\x1f])\X
    """,
    regex.VERBOSE | regex.VERSION1,
)
#: Flags, extenders, joiners, prepended marks, Hangul, Indic conjuncts, emoji.
GRAPHEMES = (
    "🇩🇪🇫\u0301\u0308\u200d\ufe0f\u0600\u0d4e\U000110bd\u1100\u1161\u11a8한가"
    "क\u094d\u093f\u0903ก\u0e33\u0e31👩❤🏽©\U000e0067a "
)
DIGITS = "1٣²๑〇〡㊀.,:a漢\u0301\u0e31 '"


@example("🇩🇪🇫🇩\u0301🇪\u094dक")
@example("\u0600🇩🇪🇫\u0d4e🇩🇪🇫🇩🇪")
@example("1〇1〇\u0301.5 a1〇1๑.5,〇1a")
@given(st.text(alphabet=GRAPHEMES, max_size=14) | st.text(alphabet=DIGITS, max_size=14) | st.text(GRAPHEMES + DIGITS))
def test_words_are_those_of_the_plain_pattern(text):
    starts, ends = split_words(text)
    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == [m.span() for m in PLAIN.finditer(text)]

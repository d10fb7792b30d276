import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spanmarker_core.sentences import is_blank, split_sentences

ODD = [
    "😀",
    "👩‍👩‍👧",
    "한글",
    "שלום.",
    "مرحبا؟",
    "ﬁn",
    "\x00",
    "\u200b",
    "\ufeff",
    "\u2063",
    "\n",
    "\r\n",
    "\u2028",
    "\x85",
    "。",
]


def pieces(text: str, language: str = "en") -> list[str]:
    return [text[start:end] for start, end in split_sentences(text, language)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He came. She saw.", ["He came.", "She saw."]),
        ("  Led by Dr. Smith!\n\nNext page. ", ["Led by Dr. Smith!", "Next page."]),
        ("Ok 😀. Then 👩‍👩‍👧 left. 🏁", ["Ok 😀.", "Then 👩‍👩‍👧 left.", "🏁"]),
        ("שלום עולם. מה שלומך?", ["שלום עולם.", "מה שלומך?"]),
        ("한글. 나라.", ["한글.", "나라."]),  # decomposed: each syllable is several code points
        ("a\x00b. C\x00d.", ["a\x00b.", "C\x00d."]),
        ("One \u2063 stop. Two.", ["One \u2063 stop.", "Two."]),
        ("Plan B\xa0. Go.", ["Plan B\xa0.", "Go."]),  # made sentencex 1.0.32 panic
        ("\ufeffHello there.", ["\ufeffHello there."]),
    ],
)
def test_sentences_are_exact_slices(text, expected):
    assert pieces(text) == expected


@pytest.mark.parametrize(
    "text", ["", " ", "\n" * 1000, "\t\r\n", "\u200b", "\ufeff\u2060 \u200d", "\u2063", "\xa0\u3000"]
)
def test_blank_text_has_no_sentence(text):
    assert is_blank(text)
    assert split_sentences(text) == []


def test_nul_is_not_blank():
    assert pieces("\x00") == ["\x00"]


def test_blank_sentence_among_others_is_left_out():
    assert pieces("One.\n\n\u200b\n\nTwo.") == ["One.", "Two."]


def test_other_scripts_split_at_their_own_stops():
    assert pieces("你好。再见。", "zh") == ["你好。", "再见。"]


def test_half_a_surrogate_pair_keeps_offsets():
    assert pieces("One \ud83d here. Two.") == ["One \ud83d here.", "Two."]


def test_a_word_of_100_000_characters_and_1000_newlines():
    text = "A " + "x" * 100_000 + "." + "\n" * 1000 + "End."
    assert pieces(text) == ["A " + "x" * 100_000 + ".", "End."]


@example("\n\n \u200b. \x1c.")
@given(
    st.lists(st.one_of(st.sampled_from(ODD), st.text(max_size=8), st.sampled_from([" ", ". ", "! ", "Dr. "]))).map(
        "".join
    )
)
def test_sentences_and_blank_gaps_rebuild_the_text(text):
    rebuilt, position = [], 0
    for char_start, char_end in split_sentences(text):
        gap, sentence = text[position:char_start], text[char_start:char_end]
        assert is_blank(gap)
        assert sentence == sentence.strip()
        assert not is_blank(sentence)
        rebuilt += [gap, sentence]
        position = char_end
    assert is_blank(text[position:])
    assert "".join(rebuilt) + text[position:] == text

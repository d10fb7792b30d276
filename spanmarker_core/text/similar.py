"""Suggestions for a name that is not known, for error messages."""

from collections.abc import Sequence
from difflib import SequenceMatcher

from spanmarker_core.text.shortened import shortened

#: Names that a suggestion shows, and characters of a list of all of them.
_SHOWN, _LIST = 3, 300
#: Least similarity, from 0 to 1, of names of which neither begins with the other.
_LEAST = 0.6


def suggest(name: object, known: Sequence[str]) -> str:
    """Return a sentence that names the known names most similar to another one; all of them if none is similar.

    A known name that begins with the other, ignoring case, is similar, so an abbreviation finds what it stands for.

    Args:
        name: the unknown name.
        known: the known names.

    >>> suggest("LOC", ["person-actor", "location-island", "location-GPE"])
    'Did you mean location-GPE or location-island?'
    >>> suggest("persom", ["person", "work"]), suggest("x", ["person", "work"])
    ('Did you mean person?', 'Choose one of: person, work.')
    """
    given = str(name).casefold()
    ratios = {each: SequenceMatcher(None, given, each.casefold()).ratio() for each in known}
    starts = [each for each in known if given and each.casefold().startswith(given)]
    similar = starts or [each for each in known if ratios[each] >= _LEAST]
    if not similar:
        return f"Choose one of: {shortened(', '.join(known), _LIST)}."
    *others, last = sorted(similar, key=lambda each: (-ratios[each], each))[:_SHOWN]
    return f"Did you mean {', '.join(others)}{' or ' if others else ''}{last}?"

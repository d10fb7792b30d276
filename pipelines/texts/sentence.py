"""The sentence around an entity."""

from spanmarker_core.text.sentences import split_sentences

#: Number of code points before an entity at which the search for its sentence begins.
_ROOM = 2000


def sentence_around(text: str, start: int, end: int, language: str) -> tuple[int, int]:
    """Return the first code point of the sentence that contains a range, and the one after its last.

    Only the text around the range is split, so a long document costs no more than a short one.

    Args:
        text: text of the document.
        start: first code point of the range.
        end: code point after its last one.
        language: language of the text, for the sentence splitter.

    >>> text = "Ann left. Bob stayed."
    >>> text[slice(*sentence_around(text, 10, 13, "en"))]
    'Bob stayed.'
    """
    low = max(0, start - _ROOM)
    for first, last in split_sentences(text[low : start + 2 * _ROOM], language):
        if first <= start - low < last:
            return low + first, max(end, low + last)
    return start, end

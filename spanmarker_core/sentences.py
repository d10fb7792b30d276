"""Sentence boundaries: where the sentences of a raw text are, as exact offsets into it.

The boundaries come from `sentencex`. This file only decides what a sentence is to us: its edges hold
no white space, and it shows at least one mark on paper.
"""

import re

import sentencex

# White space and characters without width: soft hyphen, direction marks, zero-width space and joiners,
# word joiner, invisible operators (U+2061 to U+2064), byte order mark. What holds nothing else is empty.
_BLANK = re.compile(r"[\s\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]*")
# What `sentencex` can't be given: white space of more than one byte, on which it panics beside a lone
# letter (sentencex 1.0.32, "B\u00a0."), and halves of surrogate pairs, which have no UTF-8.
_UNSAFE = re.compile("[^\\S\x00-\x7f]|[\ud800-\udfff]")


def is_blank(text: str) -> bool:
    """Tell whether `text` has nothing to read: only white space and zero-width characters, or nothing.

    >>> is_blank(" \\u200b\\n"), is_blank("a\\u200b"), is_blank("\\x00")
    (True, False, False)
    """
    return _BLANK.fullmatch(text) is not None


def split_sentences(text: str, language: str = "en") -> list[tuple[int, int]]:
    """Return the sentences of `text` as half-open `(char_start, char_end)`, in code points, in order.

    White space at their edges is trimmed, blank sentences are left out, and so what lies outside the
    sentences is blank (see `is_blank`). A blank text has no sentence. `language` is an ISO 639 code;
    `sentencex` falls back to related languages and at last to English.

    >>> split_sentences(" Müller flew home. \\n He slept. ")
    [(1, 18), (21, 30)]
    """
    # One character for one, so that offsets stay those of `text`.
    boundaries = sentencex.get_sentence_boundaries(language, _UNSAFE.sub(" ", text))
    sentences = []
    for boundary in boundaries:
        start, end = boundary["start_index"], boundary["end_index"]
        piece = text[start:end]
        if not is_blank(piece):
            char_start = start + len(piece) - len(piece.lstrip())
            sentences.append((char_start, char_start + len(piece.strip())))
    return sentences

"""Sentence splitting: the sentences of a raw text, as exact offsets into it.

The boundaries are those of `sentencex`. This module adds two rules: a sentence neither begins nor ends with white
space, and it has at least one visible character. It also keeps the time linear in the length of the text, because
`sentencex` takes quadratic time for a long paragraph (see `_paragraph`).
"""

import re
import unicodedata
from bisect import bisect_left
from functools import cache
from itertools import pairwise

import numpy as np
import sentencex

from spanmarker_core.errors import panics_as_errors

# White space and characters without width: soft hyphen, direction marks, zero-width space and joiners,
# word joiner, invisible operators (U+2061 to U+2064), byte order mark. Text of these characters only is blank.
_BLANK = re.compile(r"[\s\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]*")
# Characters that `sentencex` can't process: multi-byte white space, on which it panics next to a single
# letter (sentencex 1.0.32, "B\u00a0."), and lone surrogates, which UTF-8 can't encode.
_UNSAFE = re.compile("[^\\S\x00-\x7f]|[\ud800-\udfff]")


def is_blank(text: str) -> bool:
    """Return whether a text is empty or holds only white space and zero-width characters.

    >>> is_blank(" \\u200b\\n"), is_blank("a\\u200b"), is_blank("\\x00")
    (True, False, False)

    Args:
        text: any text.
    """
    return _BLANK.fullmatch(text) is not None


# `sentencex` splits each paragraph independently, so only the length of paragraphs matters. This is its pattern.
_PARAGRAPH_BREAK = re.compile(r"\n\r*\n")
# Characters per chunk for `sentencex`: at most _LONGEST, and fewer, down to _SHORTEST, until marks x characters are
# within _WORK. Marks are the characters that start its scans: punctuation, symbols and line ends, but not commas
# and hyphens. English prose gets 12,288 characters; the densest known patterns take about 3 s per megabyte.
_SHORTEST, _LONGEST, _WORK = 1536, 49152, 5 << 20


def split_sentences(text: str, language: str = "en") -> list[tuple[int, int]]:
    """Return the sentences of a text as half-open `(char_start, char_end)`, in code points, in order.

    White space at their edges is trimmed and blank sentences are left out, so the text between sentences is
    blank (see `is_blank`). A blank text has no sentences. The time is linear in the length of `text`.

    >>> split_sentences(" Müller flew home. \\n He slept. ")
    [(1, 18), (21, 30)]

    Args:
        text: any text.
        language: ISO 639 code; `sentencex` falls back to related languages, and finally to English.

    Raises:
        CoreError: `library.panicked`.
    """
    # Replaced one for one, so that offsets stay valid for `text`. ASCII text has no unsafe characters.
    safe = text if text.isascii() else _UNSAFE.sub(" ", text)
    sentences = []
    for start, end in _boundaries(safe, language):
        piece = text[start:end]
        if not is_blank(piece):
            char_start = start + len(piece) - len(piece.lstrip())
            sentences.append((char_start, char_start + len(piece.strip())))
    return sentences


def _boundaries(text: str, language: str) -> list[tuple[int, int]]:
    """Return `(char_start, char_end)` of the untrimmed sentences that `sentencex` finds in `text`.

    Consecutive paragraphs that are short enough are passed to the library in one call.
    """
    if len(text) <= _SHORTEST or max(map(len, text.split("\n\n"))) <= _SHORTEST:
        return _call(text, language)
    spans: list[tuple[int, int]] = []
    begin = start = 0  # of the pending short paragraphs, and of this paragraph
    for end, next_start in [*_paragraph_breaks(text), (len(text), len(text))]:
        if end - start > _SHORTEST and _is_long(paragraph := text[start:end], marks := _marks(paragraph)):
            spans += [(begin + a, begin + b) for a, b in _call(text[begin:start], language)]
            spans += [(start + a, start + b) for a, b in _paragraph(paragraph, language, marks)]
            begin = end
        start = next_start
    if begin == 0:
        return _call(text, language)
    return spans + [(begin + a, begin + b) for a, b in _call(text[begin:], language)]


def _paragraph_breaks(text: str) -> list[tuple[int, int]]:
    """Return the half-open ranges, in code points of `text`, at which `sentencex` cuts it into paragraphs."""
    if "\n\r" in text:
        return [match.span() for match in _PARAGRAPH_BREAK.finditer(text)]
    breaks, at = [], text.find("\n\n")  # several times faster than the pattern
    while at >= 0:
        breaks.append((at, at + 2))
        at = text.find("\n\n", at + 2)
    return breaks


def _call(text: str, language: str) -> list[tuple[int, int]]:
    """Return the output of `sentencex`: `(char_start, char_end)` of each sentence and paragraph break of `text`."""
    with panics_as_errors("sentencex"):
        found = sentencex.get_sentence_boundaries(language, text)
    return [(boundary["start_index"], boundary["end_index"]) for boundary in found]


def _paragraph(text: str, language: str, marks: np.ndarray) -> list[tuple[int, int]]:
    """Return the sentences of one long paragraph as `(char_start, char_end)`.

    `sentencex` 1.0.32 takes quadratic time in the length of a paragraph, for several reasons:

    - At each terminator it scans back to the last white space, full stop or slash: "彼は家に帰った。" * 40_000
      takes 24 s. (For Italian it splits the whole paragraph into words there, for Kazakh it scans all white space.)
    - It compares terminators and quotes with every bracket, quote and list item of the paragraph (Markdown with
      inline code, Chinese prose with quotation marks), and recounts quotation marks when their kind changes.
    - It searches for the partner of each open bracket or quote to the end of the paragraph ("(" * n, "«" * n).
    - After "p.m." it reads from the beginning of the paragraph.

    The paragraph is therefore split into overlapping chunks. Only boundaries in the middle of a chunk count: those in
    the last eighth, where the following text is missing, and those in the context at the beginning are ignored. A
    chunk begins at a known boundary. If half a chunk has no boundary, the next one begins inside a sentence, which
    does not create a boundary: an unbroken megabyte remains one sentence.

    The sentences are those of the whole paragraph, except where the library would look beyond the chunk:

    - A bracket or quotation longer than the overlap (roughly an eighth of a chunk) may be cut at terminators inside
      it. One that never closes, or that a stray mark opens, ends earlier or isn't recognised.
    - A stray quotation mark changes how `sentencex` pairs marks of the same kind up to the end of the paragraph. Here
      its influence ends with the chunk.
    - List items are recognised by majority in the chunk instead of the paragraph, and the last item extends to the
      end of the chunk instead of the paragraph.
    - In a chunk that has to begin inside a quotation, straight opening and closing marks are confused.
    - Names with initials, ellipses and runs of terminators may be cut where a chunk begins inside a sentence.

    Args:
        text: the paragraph, without unsafe characters.
        language: ISO 639 code.
        marks: bool [n_chars], see `_marks`.
    """
    before = np.append(0, np.cumsum(marks, dtype=np.int64))
    end = len(text)
    bounds = [0]
    at = decided = 0  # Boundaries up to `decided` are final; the next chunk begins at or before it.
    while True:
        width = _width(before, at)
        stop = min(end, at + width)
        limit = end if stop == end else stop - width // 8
        # The beginning of a later chunk must not look like the beginning of a paragraph, where a list item would
        # affect the text after it, nor like the beginning of a word, unless the library sees one there.
        lead = "" if at == 0 else "x" + "".join(_WORD_END.findall(text[at - 1]))
        found = [at - len(lead) + b for _, b in _call(lead + text[at:stop], language)]
        bounds += [bound for bound in found if decided < bound <= limit]
        if stop == end:
            return list(pairwise(bounds))
        if bounds[-1] > at + width // 2:
            decided = bounds[-1]
            at = _next_start(text, at, bounds, width)
        else:
            decided = limit
            at = _restart(text, limit - width // 16, limit - width // 32)


def _next_start(text: str, at: int, bounds: list[int], width: int) -> int:
    """Return the boundary at which to begin the chunk after the one of `width` characters from `at`.

    It is roughly a sixteenth of a chunk before the last boundary and, judging by their number, outside straight
    double quotes: inside them, every following closing mark would be taken for an opening one.
    """
    first = bisect_left(bounds, bounds[-1] - width // 4)
    near = bisect_left(bounds, bounds[-1] - width // 16)
    for bound in [*bounds[near:], *reversed(bounds[first:near])]:
        if text.count('"', at, bound) % 2 == 0:
            return bound
    return bounds[near]


def _restart(text: str, earliest: int, latest: int) -> int:
    """Return a position inside a sentence to begin at, from `earliest` to `latest`, after white space if possible."""
    space = _SPACE.search(text, earliest, latest)
    return space.end() if space else earliest


_SPACE, _WORD_END = re.compile(r"\s"), re.compile(r"[\s./]")


def _is_long(paragraph: str, marks: np.ndarray) -> bool:
    """Return whether a paragraph is too long for a single call of `sentencex`."""
    return len(paragraph) > _LONGEST or len(paragraph) * int(np.count_nonzero(marks)) > _WORK


def _width(before: np.ndarray, start: int) -> int:
    """Return the number of characters from `start` on for one call of `sentencex`.

    Args:
        before: int64 [n_chars + 1], number of marks before each position in the paragraph.
        start: a position in the paragraph.
    """
    width, last = _LONGEST, len(before) - 1
    while width > _SHORTEST and width * int(before[min(start + width, last)] - before[start]) > _WORK:
        width //= 2
    return width


def _marks(text: str) -> np.ndarray:
    """Return bool [n_chars]: True for the characters of `text` that are marks (see `_WORK`)."""
    if text.isascii():
        return _mark_table()[np.frombuffer(text.encode(), np.uint8)]
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    return _mark_table()[np.minimum(codes, 0xFFFF)]


@cache
def _mark_table() -> np.ndarray:
    """Return bool [65536]: True for code points that are marks (see `_WORK`); the last one represents all non-BMP."""
    table = np.array([unicodedata.category(chr(code))[0] in "PS" or chr(code) in "\n\r" for code in range(0x10000)])
    table[[ord(","), ord("-")]] = False
    table[0xFFFF] = True
    return table

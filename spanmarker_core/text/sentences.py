"""Sentence splitting: the sentences of a raw text, as exact offsets into it.

The boundaries are those of `sentencex`. This module adds three rules: a sentence neither begins nor ends with white
space, it has at least one visible character, and the number of a list item stays with its item (see `_keep_numbers`).
It also keeps the time linear in the length of the text, because `sentencex` takes quadratic time for a long paragraph
(see `_paragraph`).
"""

import re
import unicodedata
from bisect import bisect_left
from functools import cache
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
import sentencex

from spanmarker_core.errors import panics_as_errors
from spanmarker_core.text.languages import normalise_language

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


#: What ends a sentence: "auto", the splitter's rules; "lines", also each end of a line.
SentenceBreaks = Literal["auto", "lines"]
SENTENCE_BREAKS = get_args(SentenceBreaks)


def split_sentences(text: str, language: str = "en", breaks: SentenceBreaks = "auto") -> list[tuple[int, int]]:
    """Return the sentences of a text as half-open `(char_start, char_end)`, in code points, in order.

    White space at their edges is trimmed and blank sentences are left out, so the text between sentences is
    blank (see `is_blank`). A blank text has no sentences. The time is linear in the length of `text`.

    >>> split_sentences(" Müller flew home. \\n He slept. ")
    [(1, 18), (21, 30)]

    Args:
        text: any text.
        language: a language, see `normalise_language`; `sentencex` falls back to related languages, and finally to
            English.
        breaks: "auto", or "lines" to split each line as a text of its own.

    Raises:
        CoreError: `call.bad_language`, `library.panicked`.
    """
    language = normalise_language(language)
    # Replaced one for one, so that offsets stay valid for `text`. ASCII text has no unsafe characters.
    lines = breaks == "lines"
    safe = _LINE_END.sub("\n", text) if lines else text
    safe = safe if safe.isascii() else _UNSAFE.sub(" ", safe)
    sentences = []
    for start, end in _keep_numbers(safe, (_line_boundaries if lines else _boundaries)(safe, language), lines):
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


# A line feed after a carriage return is an empty line, which has no sentence.
_LINE_END = re.compile("[\n\r\x85\u2028\u2029]")


def _line_boundaries(text: str, language: str) -> list[tuple[int, int]]:
    """Return what `_boundaries` does, with each line split as a text of its own.

    The lines become paragraphs, which `sentencex` splits independently, so that one call suffices for many lines.
    """
    ends = np.array([match.start() for match in re.finditer("\n", text)], np.int64)
    spans = np.array(_boundaries(text.replace("\n", "\n\n"), language), np.int64).reshape(-1, 2)
    # Each line end before a position has moved it by one character.
    spans -= np.searchsorted(ends + np.arange(len(ends)), spans, "left")
    return [(start, end) for start, end in spans.tolist()]


_ROMAN = ("", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii", "xiii", "xiv", "xv")
# A number at the beginning of a line, with an item behind it: "1. Paris", "(2) London", "**3.** Rome", "1.2. Oslo".
_NUMBER = re.compile(
    r"(?:^|(?<=[\n\r]))[^\S\n\r]*[-*+•]?[^\S\n\r]*[(\[*_]*(?:\d{1,3}[.．])*(\d{1,3}|[ivx]{1,5}|[IVX]{1,5})[.．。)\]]+[*_]*"
    r"[^\S\n\r]*(?=[^\s])"
)
_NUMBER_END = re.compile(r"[\dIVXivx][.．。)\]*_]+\s*$")


def _keep_numbers(text: str, spans: list[tuple[int, int]], every: bool = False) -> list[tuple[int, int]]:
    """Return the spans with each boundary behind the number of a list item moved to before the number.

    `sentencex` recognises lists only if most lines of a paragraph are items, and takes other numbers for ends of
    sentences. A number at the beginning of a line belongs to a list if the number before it is one less, or that after
    it one more, or if it is 1. A wrapped line that begins with a number ("He was\n42. Then he left.") is not changed.

    >>> _keep_numbers("1. Oslo\\n2. Rome", [(0, 3), (3, 11), (11, 15)])
    [(0, 8), (8, 15)]

    Args:
        text: the text.
        spans: (char_start, char_end) of untrimmed sentences, in order.
        every: take every number at the beginning of a line for that of an item.
    """
    if not any(_NUMBER_END.search(text, max(0, end - 12), end) for _, end in spans):
        return spans
    found = list(_NUMBER.finditer(text))
    values = [_value(match[1]) for match in found]
    kept, at = [], 0
    for place, match in enumerate(found):
        value = values[place]
        neighbours = (values[place - 1] + 1 if place else 1, values[place + 1] - 1 if place + 1 < len(found) else 1)
        if not every and value != 1 and value not in neighbours:
            continue
        while at < len(spans) and spans[at][0] <= match.start():
            kept.append(spans[at])
            at += 1
        if at < len(spans) and spans[at][0] <= match.end():
            while at < len(spans) and spans[at][1] <= match.end():  # a piece of the number itself
                at += 1
            start = match.start()
            if kept and kept[-1][0] < start:
                kept[-1] = (kept[-1][0], min(kept[-1][1], start))
            elif kept:
                kept.pop()
            if at < len(spans):
                kept.append((start, spans[at][1]))
                at += 1
    return kept + spans[at:]


def _value(number: str) -> int:
    """Return the value of a decimal or Roman number; 0 for letters that are none."""
    if number.isdecimal():
        return int(number)
    return _ROMAN.index(number.lower()) if number.lower() in _ROMAN else 0


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

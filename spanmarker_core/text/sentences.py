"""Sentence boundaries: where the sentences of a raw text are, as exact offsets into it.

The boundaries come from `sentencex`. This file decides what a sentence is to us: its edges hold no white
space, and it shows at least one mark on paper. It also keeps the time linear in the length of the text, because
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


# `sentencex` treats each paragraph on its own, so only the length of paragraphs matters. This is its own pattern.
_PARAGRAPH_BREAK = re.compile(r"\n\r*\n")
# Characters of a stretch that `sentencex` gets at once: at most _LONGEST, and fewer, down to _SHORTEST, until
# marks x characters are within _WORK. Marks are what starts its scans: punctuation, symbols, line ends; not commas
# and hyphens. English prose gets 12,288 characters; the densest patterns that we know take about 3 s for a megabyte.
_SHORTEST, _LONGEST, _WORK = 1536, 49152, 5 << 20


def split_sentences(text: str, language: str = "en") -> list[tuple[int, int]]:
    """Return the sentences of `text` as half-open `(char_start, char_end)`, in code points, in order.

    White space at their edges is trimmed, blank sentences are left out, and so what lies outside the
    sentences is blank (see `is_blank`). A blank text has no sentence. `language` is an ISO 639 code;
    `sentencex` falls back to related languages and at last to English. The time is linear in the length of `text`.

    >>> split_sentences(" Müller flew home. \\n He slept. ")
    [(1, 18), (21, 30)]
    """
    # One character for one, so that offsets stay those of `text`. Plain ASCII holds nothing unsafe.
    safe = text if text.isascii() else _UNSAFE.sub(" ", text)
    sentences = []
    for start, end in _boundaries(safe, language):
        piece = text[start:end]
        if not is_blank(piece):
            char_start = start + len(piece) - len(piece.lstrip())
            sentences.append((char_start, char_start + len(piece.strip())))
    return sentences


def _boundaries(text: str, language: str) -> list[tuple[int, int]]:
    """Return `(char_start, char_end)` of the untrimmed sentences of `text`, as `sentencex` sees them.

    Paragraphs that are short enough go to the library as they are, side by side in one call.
    """
    if len(text) <= _SHORTEST or max(map(len, text.split("\n\n"))) <= _SHORTEST:
        return _call(text, language)
    spans: list[tuple[int, int]] = []
    begin = start = 0  # of the short paragraphs that wait, and of this paragraph
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
    breaks, at = [], text.find("\n\n")  # several times as fast as the pattern
    while at >= 0:
        breaks.append((at, at + 2))
        at = text.find("\n\n", at + 2)
    return breaks


def _call(text: str, language: str) -> list[tuple[int, int]]:
    """Return what `sentencex` says: `(char_start, char_end)` of each sentence and paragraph break of `text`."""
    with panics_as_errors("sentencex"):
        found = sentencex.get_sentence_boundaries(language, text)
    return [(boundary["start_index"], boundary["end_index"]) for boundary in found]


def _paragraph(text: str, language: str, marks: np.ndarray) -> list[tuple[int, int]]:
    """Return the sentences of one long paragraph as `(char_start, char_end)`.

    `sentencex` 1.0.32 takes quadratic time in the length of a paragraph, for several reasons:

    - At each ender it walks back to the last white space, full stop or slash: "彼は家に帰った。" * 40_000 takes
      24 s. (Italian splits the whole paragraph into words there, Kazakh walks through all white space.)
    - It compares enders and quotes with every bracket, quote and list item of the paragraph (Markdown with inline
      code, Chinese prose with quotation marks), and counts a quotation mark anew when the kind changes.
    - It looks for the partner of each open bracket or quote up to the paragraph's end ("(" * n, "«" * n).
    - After "p.m." it reads from the beginning of the paragraph.

    So the library gets overlapping stretches of the paragraph. Only what it says in the midst of a stretch counts:
    not in the last eighth, where it can't see what comes, and not in the context at the beginning. A stretch begins
    at a sentence that is known. Where half a stretch shows no boundary it begins in the midst of a sentence, and
    that makes no boundary: an unbroken megabyte stays one sentence.

    The sentences are those of the whole paragraph except where the library looks further than a stretch:

    - A bracket or quotation that is longer than the overlap (about an eighth of a stretch) may be cut at enders
      inside. One that never closes, or that a stray mark opens, ends earlier or isn't seen as one.
    - A stray quotation mark changes how `sentencex` pairs and trusts the marks of the same kind up to the
      paragraph's end. Here its influence ends with the stretch.
    - List items are recognised by majority in the paragraph, here in the stretch, and the last item reaches to the
      end of the paragraph, here of the stretch.
    - A stretch that has to begin inside a quotation takes its straight marks the wrong way round.
    - Names with initials, ellipses and runs of enders that lie across the beginning of a stretch inside a sentence.

    Args:
        text: the paragraph, without anything unsafe.
        language: ISO 639 code.
        marks: bool [n_chars], see `_marks`.
    """
    before = np.append(0, np.cumsum(marks, dtype=np.int64))
    end = len(text)
    bounds = [0]
    at = decided = 0  # Boundaries up to `decided` are final; the next stretch begins at or before it.
    while True:
        width = _width(before, at)
        stop = min(end, at + width)
        limit = end if stop == end else stop - width // 8
        # A beginning that isn't the paragraph's must not look like one, where a list item rules over what follows. Nor
        # must it look like that of a word, unless the library sees a word begin there.
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
    """Return the boundary where the stretch after the one of `width` characters from `at` begins.

    That is about a sixteenth of a stretch before the last boundary, and outside of straight double quotes as far
    as their number tells: inside, every closing mark that follows would be taken for an opening one.
    """
    first = bisect_left(bounds, bounds[-1] - width // 4)
    near = bisect_left(bounds, bounds[-1] - width // 16)
    for bound in [*bounds[near:], *reversed(bounds[first:near])]:
        if text.count('"', at, bound) % 2 == 0:
            return bound
    return bounds[near]


def _restart(text: str, earliest: int, latest: int) -> int:
    """Return a place between `earliest` and `latest` to begin in the midst of a sentence, behind white space if any."""
    space = _SPACE.search(text, earliest, latest)
    return space.end() if space else earliest


_SPACE, _WORD_END = re.compile(r"\s"), re.compile(r"[\s./]")


def _is_long(paragraph: str, marks: np.ndarray) -> bool:
    """Tell whether a paragraph is too much for `sentencex` at once."""
    return len(paragraph) > _LONGEST or len(paragraph) * int(np.count_nonzero(marks)) > _WORK


def _width(before: np.ndarray, start: int) -> int:
    """Return how many characters from `start` on `sentencex` may get at once.

    Args:
        before: int64 [n_chars + 1], how many marks come before each place of the paragraph.
        start: a place in it.
    """
    width, last = _LONGEST, len(before) - 1
    while width > _SHORTEST and width * int(before[min(start + width, last)] - before[start]) > _WORK:
        width //= 2
    return width


def _marks(text: str) -> np.ndarray:
    """Return bool [n_chars], which characters of `text` are marks (see `_WORK`)."""
    if text.isascii():
        return _mark_table()[np.frombuffer(text.encode(), np.uint8)]
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    return _mark_table()[np.minimum(codes, 0xFFFF)]


@cache
def _mark_table() -> np.ndarray:
    """Return bool [65536], which code points are marks (see `_WORK`); the last stands for all beyond the BMP."""
    table = np.array([unicodedata.category(chr(code))[0] in "PS" or chr(code) in "\n\r" for code in range(0x10000)])
    table[[ord(","), ord("-")]] = False
    table[0xFFFF] = True
    return table

"""Conversion between label schemes, with one tag per word, and labelled spans of words.

    words    Ada     Lovelace  met  Paris   London
    IOB1     I-PER   I-PER     O    I-LOC   B-LOC     B- only between two adjacent spans of one label
    IOB2     B-PER   I-PER     O    B-LOC   B-LOC     B- begins every span
    BIOES    B-PER   E-PER     O    S-LOC   S-LOC     E- ends a span, S- is a span of one word
    BILOU    B-PER   L-PER     O    U-LOC   U-LOC     the same with L- and U-
    plain    PER     PER       O    LOC     LOC       no prefix: a span is a maximal run of one label
    spans    (0, 2, PER), (3, 4, LOC), (4, 5, LOC)    no tags; the only form that can hold nested spans

(In `plain` the last two words can only be read as one span, so writing them as two raises an error.)

The scheme is always given and never guessed; `scheme_called` lists the accepted names. Reading is strict: tags that
the scheme forbids raise an error with the index of their word, because a wrong scheme would silently lose entities.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from spanmarker_core.errors import CoreError

TAG_SCHEMES = ("IOB1", "IOB2", "BIOES", "BILOU", "plain")
SCHEMES = (*TAG_SCHEMES, "spans")

#: "IOB" and "none" are names that the thesis uses (2.1 and 5). Other authors also call IOB2 "IOB"; reading IOB2 as IOB1
#: raises an error at the first span, so the mistake can't go unnoticed. Nobody calls another scheme "BIO".
_ALIASES = {"bio": "IOB2", "iob": "IOB1", "none": "plain"}
_NAMES = {name.lower(): name for name in SCHEMES} | _ALIASES

OUTSIDE = "O"

_PREFIXES = {"IOB1": "IB", "IOB2": "BI", "BIOES": "BIES", "BILOU": "BILU"}


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A labelled span of words.

    Attributes:
        start: index of the first word in the sentence.
        end: index of the last word in the sentence plus one.
        label: entity label, without a prefix.
    """

    start: int
    end: int
    label: str


def tags_to_spans(tags: Sequence[str], scheme: str) -> list[Span]:
    """Convert the tags of a sentence to spans, in order.

    >>> tags_to_spans(["I-PER", "I-LOC", "B-LOC", "O"], "IOB1")
    [Span(start=0, end=1, label='PER'), Span(start=1, end=2, label='LOC'), Span(start=2, end=3, label='LOC')]

    Args:
        tags: one tag per word.
        scheme: name of a scheme that has tags; see `check_tag_scheme`.

    Raises:
        CoreError: `call.unknown_option`, `labels.bad_tag`, `labels.bad_sequence`, `labels.unfinished`. For the last
            three, `values["word"]` is the index of the faulty word.
    """
    scheme = check_tag_scheme(scheme)
    parsed = [_parse(tag, word, scheme) for word, tag in enumerate(tags)]
    if scheme == "plain":
        return _read_runs(parsed)
    if scheme in ("IOB1", "IOB2"):
        return _read_iob(parsed, scheme)
    return _read_closed(parsed, scheme)


def spans_to_tags(spans: Iterable[Span], n_words: int, scheme: str) -> list[str]:
    """Convert the spans of a sentence to tags, one per word.

    >>> spans_to_tags([Span(2, 3, "LOC"), Span(0, 2, "PER")], 4, "BIOES")
    ['B-PER', 'E-PER', 'S-LOC', 'O']

    Args:
        spans: the spans, in any order.
        n_words: number of words of the sentence.
        scheme: name of a scheme that has tags; see `check_tag_scheme`.

    Raises:
        CoreError: `call.unknown_option`, `labels.overlap` (nested, crossing or repeated spans), `labels.adjacent`
            (`plain` only), `labels.bad_span`, `labels.bad_label`.
    """
    scheme = check_tag_scheme(scheme)
    tags = [OUTSIDE] * n_words
    previous: Span | None = None
    for span in sorted(spans):
        _check_span(span, n_words)
        touches = previous is not None and previous.label == span.label and previous.end == span.start
        if previous is not None and span.start < previous.end:
            raise CoreError("labels.overlap", scheme=scheme, first=previous, second=span)
        if scheme == "plain" and touches:
            raise CoreError("labels.adjacent", scheme=scheme, first=previous, second=span, label=span.label)
        tags[span.start : span.end] = _write(span, scheme, touches)
        previous = span
    return tags


def scheme_called(name: str) -> str:
    """Return the scheme with the given name, in upper or lower case.

    "BIO" means IOB2, "IOB" means IOB1 and "none" means plain.

    >>> scheme_called("bilou"), scheme_called("BIO"), scheme_called("IOB"), scheme_called("none")
    ('BILOU', 'IOB2', 'IOB1', 'plain')

    Args:
        name: name of a scheme of `SCHEMES`, or an alias.

    Raises:
        CoreError: `call.unknown_option`.
    """
    if not isinstance(name, str) or name.lower() not in _NAMES:
        raise CoreError("call.unknown_option", option="scheme", value=name, choices=", ".join(SCHEMES))
    return _NAMES[name.lower()]


def check_tag_scheme(name: str, option: str = "scheme") -> str:
    """Return the scheme with the given name, which must have tags.

    Args:
        name: name of a scheme of `TAG_SCHEMES` or an alias, in upper or lower case.
        option: the option that names it, for the error.

    Raises:
        CoreError: `call.unknown_option`.
    """
    scheme = _NAMES.get(name.lower(), name)
    if scheme not in TAG_SCHEMES:
        raise CoreError("call.unknown_option", option=option, value=name, choices=", ".join(TAG_SCHEMES))
    return scheme


def schemes_of(tags: Sequence[str]) -> str:
    """Name the schemes in which the tags of a sentence can be read, as the end of a message about another scheme.

    >>> schemes_of(["I-PER", "I-PER", "O"])
    '. These tags can be read as IOB1 (--scheme)'

    Args:
        tags: one tag per word.

    Returns:
        The text; empty if no scheme fits.
    """
    fitting = []
    for scheme in TAG_SCHEMES:
        try:
            tags_to_spans(tags, scheme)
        except CoreError:
            continue
        fitting.append(scheme)
    # Without prefixes nearly all tags are valid, so `plain` only means something if nothing else fits.
    fitting = [scheme for scheme in fitting if scheme != "plain"] or fitting
    return f". These tags can be read as {' or '.join(fitting)} (--scheme)" if fitting else ""


def label_problem(label: object) -> str | None:
    """Return the reason why a value is not a valid entity label, or None if it is valid.

    Args:
        label: the value to check.
    """
    if not isinstance(label, str):
        return f"it is {type(label).__name__}, not a string"
    if not label:
        return "it is empty"
    if label == OUTSIDE:
        return f"{OUTSIDE!r} means no entity"
    if label != label.strip():
        return "it begins or ends with white space"
    try:
        label.encode()
    except UnicodeEncodeError:
        return "it contains an unpaired surrogate, which cannot be stored"
    return None


# A parsed tag is (prefix, label); the outside tag is ("O", ""), and a plain label has prefix "I".
_Parsed = tuple[str, str]


def _parse(tag: str, word: int, scheme: str) -> _Parsed:
    if tag == OUTSIDE:
        return OUTSIDE, ""
    if not isinstance(tag, str):
        problem: str | None = f"it is {type(tag).__name__}, not a string"
    elif scheme == "plain":
        prefix, label = "I", tag
        problem = label_problem(label)
    else:
        prefix, hyphen, label = tag.partition("-")
        if not hyphen or len(prefix) != 1 or prefix not in _PREFIXES[scheme]:
            forms = ", ".join(f"{letter}-LABEL" for letter in _PREFIXES[scheme])
            problem = f"expected {OUTSIDE}, {forms}"
        else:
            problem = label_problem(label)
            problem = problem and f"the label is invalid, {problem}"
    if problem:
        raise CoreError("labels.bad_tag", tag=tag, word=word, scheme=scheme, problem=problem)
    return prefix, label


def _bad_sequence(parsed: Sequence[_Parsed], word: int, scheme: str) -> CoreError:
    previous = repr(_format(parsed[word - 1])) if word else "the start of the sentence"
    return CoreError("labels.bad_sequence", tag=_format(parsed[word]), word=word, previous=previous, scheme=scheme)


def _format(parsed: _Parsed) -> str:
    prefix, label = parsed
    return f"{prefix}-{label}" if label else prefix


def _read_runs(parsed: Sequence[_Parsed]) -> list[Span]:
    spans: list[Span] = []
    for word, (_, label) in enumerate(parsed):
        if not label:
            continue
        if spans and spans[-1].end == word and spans[-1].label == label:
            spans[-1] = Span(spans[-1].start, word + 1, label)
            continue
        # "B-PER I-PER" is IOB2 under the wrong name; accepting it would break every long entity in two.
        if label[:2] in ("I-", "E-", "L-") and word and parsed[word - 1][1] == "B-" + label[2:]:
            problem = (
                f"after {parsed[word - 1][1]!r} it looks like a tag with a prefix, but plain labels have no prefix"
            )
            raise CoreError("labels.bad_tag", tag=label, word=word, scheme="plain", problem=problem)
        spans.append(Span(word, word + 1, label))
    return spans


def _iob_opening(scheme: str, touches: bool) -> str:
    """Return the prefix of a span's first word; `touches` if the previous word ends a span of the same label."""
    return "B" if scheme == "IOB2" or touches else "I"


def _read_iob(parsed: Sequence[_Parsed], scheme: str) -> list[Span]:
    spans: list[Span] = []
    for word, (prefix, label) in enumerate(parsed):
        if not label:
            continue
        touches = bool(spans) and spans[-1].end == word and spans[-1].label == label
        if touches and prefix == "I":
            spans[-1] = Span(spans[-1].start, word + 1, label)
        elif prefix == _iob_opening(scheme, touches):
            spans.append(Span(word, word + 1, label))
        else:
            raise _bad_sequence(parsed, word, scheme)
    return spans


def _read_closed(parsed: Sequence[_Parsed], scheme: str) -> list[Span]:
    """Convert tags of BIOES or BILOU, which mark the end of every span."""
    begin, inside, last, single = _closed_prefixes(scheme)
    spans: list[Span] = []
    open_start: int | None = None
    for word, (prefix, label) in enumerate(parsed):
        if open_start is None:
            if prefix == begin:
                open_start = word
            elif prefix == single:
                spans.append(Span(word, word + 1, label))
            elif prefix != OUTSIDE:
                raise _bad_sequence(parsed, word, scheme)
        elif prefix not in (inside, last) or label != parsed[open_start][1]:
            raise _bad_sequence(parsed, word, scheme)
        elif prefix == last:
            spans.append(Span(open_start, word + 1, label))
            open_start = None
    if open_start is not None:
        raise CoreError(
            "labels.unfinished",
            tag=_format(parsed[-1]),
            word=len(parsed) - 1,
            scheme=scheme,
            closing=f"{last}-{parsed[open_start][1]}",
        )
    return spans


def _closed_prefixes(scheme: str) -> tuple[str, str, str, str]:
    """Return the prefixes of the first, an inner and the last word of a span, and of a span of one word."""
    return ("B", "I", "E", "S") if scheme == "BIOES" else ("B", "I", "L", "U")


def _write(span: Span, scheme: str, touches: bool) -> list[str]:
    length = span.end - span.start
    if scheme == "plain":
        return [span.label] * length
    if scheme in ("IOB1", "IOB2"):
        prefixes = [_iob_opening(scheme, touches), *["I"] * (length - 1)]
    else:
        begin, inside, last, single = _closed_prefixes(scheme)
        prefixes = [single] if length == 1 else [begin, *[inside] * (length - 2), last]
    return [f"{prefix}-{span.label}" for prefix in prefixes]


def _check_span(span: Span, n_words: int) -> None:
    if not 0 <= span.start < span.end <= n_words:
        raise CoreError("labels.bad_span", span=span, n_words=n_words)
    problem = label_problem(span.label)
    if problem:
        raise CoreError("labels.bad_label", label=span.label, problem=problem)

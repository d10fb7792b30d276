"""Elements of a JSON array, or values one after the other over several lines, found without parsing them.

The bytes of an element are cut out first and parsed afterwards, so an invalid element costs only itself, and a text is
read by the same parser as in JSON lines.
"""

import contextlib
import json
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from spanmarker_core.data.blocks import DamagedFile
from spanmarker_core.data.lines import BOM

#: Records at the start of a file whose keys are examined.
_HEAD_RECORDS = 100
#: Bytes that are kept of the beginning of an element that is too long.
_HEAD_BYTES = 4096


class BrokenJson(DamagedFile):
    """Data are not JSON values one after the other."""


_OUTSIDE = re.compile(rb'["\[\]{},]')
_IN_STRING = re.compile(rb'["\\]')
_DECODER = json.JSONDecoder()
#: Bytes that can be skipped in one step: whole strings, and others up to a bracket or, within the array, a comma.
_SKIPPED, _SKIPPED_INSIDE = (
    re.compile(rb'(?:[^"\[\]{}' + comma + rb']++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL) for comma in (b",", b"")
)


def json_elements(blocks: Iterable[bytes], max_bytes: int | None = None) -> Iterator[tuple[bytes, int]]:
    """Yield (bytes, number of bytes) of each element of an array, or of each value where the content is not an array.

    Several arrays may follow each other.

    Args:
        blocks: the content of a file in parts of any size.
        max_bytes: size of an element above which only its beginning is kept and yielded; None means no limit.

    Raises:
        BrokenJson: a bracket too many closes, or the content ends within an element.

    >>> list(json_elements([b'[{"a": "x,', b'y]"}, 2 ]'], 100))
    [(b'{"a": "x,y]"}', 13), (b'2', 1)]
    >>> list(json_elements([b'{"a":\\n 1}\\n{}'], 100))
    [(b'{"a":\\n 1}', 9), (b'{}', 2)]
    """
    element = _Element(max_bytes)
    level: int | None = None  # depth of the elements
    depth = escaped = 0
    in_string = False
    for number, block in enumerate(blocks):
        if number == 0:
            block = block.removeprefix(BOM)
        if level is None and block.strip():
            level = 1 if block.lstrip().startswith(b"[") else 0
        start, place = 0, escaped
        escaped = 0
        while True:
            if not in_string and (skipped := (_SKIPPED if depth == level else _SKIPPED_INSIDE).match(block, place)):
                place = skipped.end()
            if not (found := (_IN_STRING if in_string else _OUTSIDE).search(block, place)):
                break
            place, token = found.end(), found[0]
            if token == b"\\":
                place += 1  # the next character, which may be in the next block
                escaped = max(0, place - len(block))
            elif token == b'"':
                in_string = not in_string
            elif token in b"[{":
                depth += 1
                if level == depth == 1 and (before := element.end(block[start : place - 1]))[1]:
                    yield before  # something between two arrays
                start = place if level == depth == 1 else start
            elif token in b"]}":
                depth -= 1
                if depth < 0:
                    raise BrokenJson("a bracket closes that was not opened")
                if depth == 0:
                    ended = element.end(block[start : place - (level or 0)])
                    start = place
                    if ended[1]:
                        yield ended
            elif level == depth == 1:
                yield element.end(block[start : place - 1])
                start = place
        element.add(block[start:])
    if depth or in_string or element.end(b"")[1]:
        raise BrokenJson("the data end within a value")


class _Element:
    """The parts of the element that is being read.

    Args:
        max_bytes: size above which only the beginning is kept; None means no limit.
    """

    def __init__(self, max_bytes: int | None) -> None:
        self._max_bytes = sys.maxsize if max_bytes is None else max_bytes
        self._parts: list[bytes] = []
        self._n_bytes = 0

    def add(self, part: bytes) -> None:
        """Add a part."""
        self._n_bytes += len(part)
        self._parts.append(part)
        if self._n_bytes > self._max_bytes:
            self._parts = [b"".join(self._parts)[:_HEAD_BYTES]]

    def end(self, part: bytes) -> tuple[bytes, int]:
        """Return the element that ends with a part, and its size; the next one begins."""
        self.add(part)
        whole, n_bytes = b"".join(self._parts), self._n_bytes
        self._parts, self._n_bytes = [], 0
        stripped = whole.strip()
        return stripped, n_bytes if n_bytes > self._max_bytes else len(stripped)


def is_json_value(head: bytes) -> bool:
    """Return whether a file of JSON is an array, or values that are not one per line, and not JSON lines.

    The first value decides: it extends over several lines, or another value follows it on its line.

    Args:
        head: beginning of the file, in UTF-8.

    >>> is_json_value(b'[{"id": 1}]'), is_json_value(b'{"id": 1}'), is_json_value(b'{"id":\\n 1}')
    (True, False, True)
    >>> is_json_value(b'{"id": 1} {"id": 2}'), is_json_value(b'{"id": 1} {')
    (True, False)
    """
    start = head.removeprefix(BOM).lstrip()
    if start.startswith(b"["):
        return True
    text = start.decode(errors="replace")
    try:
        end = _DECODER.raw_decode(text)[1]
        if "\n" in text[:end]:
            return True
        following = text[end:].partition("\n")[0].lstrip()
        return following.startswith("{") and _DECODER.raw_decode(following)[1] > 0
    except (ValueError, RecursionError):  # not complete in the head
        return text.partition("\n")[0].strip() == "{"


def json_head(head: bytes) -> list[dict[str, Any]]:
    """Return the objects among the first records of a file of JSON; a single invalid record is tolerated.

    Args:
        head: beginning of the file, in UTF-8.
    """
    records: list[bytes] = []
    if is_json_value(head):
        with contextlib.suppress(DamagedFile):
            for record, _ in json_elements([head], len(head)):
                records.append(record)
                if len(records) == _HEAD_RECORDS:
                    break
    else:
        records = head.removeprefix(BOM).split(b"\n")[:_HEAD_RECORDS]
    found = []
    for record in records:
        with contextlib.suppress(ValueError, RecursionError):
            found.append(json.loads(record))
    return [record for record in found if isinstance(record, dict)]

"""JSON files of many records, one per line, in an array or one after the other, read as a stream."""

import json
from collections.abc import Iterable, Iterator
from functools import partial
from typing import IO, Any

from spanmarker_core.data.blocks import BLOCK_BYTES, utf8, with_head
from spanmarker_core.data.json_values import BrokenJson, is_json_value, json_elements
from spanmarker_core.data.jsonl import parse_object
from spanmarker_core.data.lines import numbered_lines
from spanmarker_core.data.records import BadRecord, RecordProblem
from spanmarker_core.formats.document import BadRow


class JsonFile:
    """A JSON file of records.

    Args:
        file: the file, from its beginning; it need not be seekable.

    Attributes:
        bad: makes the `BadRecord` of a place and a problem. The place of a record on a line is its line, from 1, and
            that of another its number, from 0.

    Raises:
        DamagedFile: while reading; see `json_elements` and `utf8`.
    """

    def __init__(self, file: IO[bytes]) -> None:
        head, self._blocks = with_head(utf8(iter(partial(file.read, BLOCK_BYTES), b"")))
        self._are_elements = is_json_value(head)
        self.bad: type[BadRecord] = BadRow if self._are_elements else BadRecord

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        """Yield (place, value) of each record; the value is a `BadRecord` if it is not JSON."""
        for place, text in self._records():
            try:
                yield place, text if isinstance(text, BadRecord) else parse_object(text)
            except RecordProblem as error:
                yield place, self.bad(place, str(error))

    def _records(self) -> Iterator[tuple[int, str | bytes | BadRecord]]:
        if self._are_elements:
            place = 0
            try:
                for element, _ in json_elements(self._blocks):
                    yield place, element
                    place += 1
            except BrokenJson as error:
                yield place, BadRow(place, f"it is not JSON ({error})")
            return
        for line, text in numbered_lines(self._blocks):
            if isinstance(text, BadRecord) or text.strip():
                yield line, text


def write_lines(records: Iterable[dict[str, Any]], file: IO[bytes]) -> None:
    """Write one record per line.

    Args:
        records: the records.
        file: receives the lines.
    """
    for record in records:
        file.write(_encoded(record) + b"\n")


def write_array(records: Iterable[dict[str, Any]], file: IO[bytes]) -> None:
    """Write an array with one record per line.

    Args:
        records: the records.
        file: receives the array.
    """
    before = b"["
    for record in records:
        file.write(before + b"\n" + _encoded(record))
        before = b","
    file.write(b"[]\n" if before == b"[" else b"\n]\n")


def _encoded(record: dict[str, Any]) -> bytes:
    return json.dumps(record, ensure_ascii=False).encode()

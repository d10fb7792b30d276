"""JSON files of many records, one per line or in one array, read as a stream."""

import io
import json
from collections.abc import Iterable, Iterator
from typing import IO, Any, BinaryIO

import ijson

from spanmarker_core.data.jsonl import parse_object
from spanmarker_core.data.lines import numbered_lines
from spanmarker_core.data.records import BadRecord, RecordProblem
from spanmarker_core.formats.document import BadRow

_MARK = b"\xef\xbb\xbf"
_WHITE_SPACE = b" \t\r\n"


class JsonFile:
    """A JSON file of records.

    Args:
        file: the file, from its beginning; it need not be seekable.

    Attributes:
        bad: makes the `BadRecord` of a place, which is a line from 1, or a position in the array from 0, and a problem.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file if isinstance(file, io.BufferedReader) else io.BufferedReader(file)  # type: ignore[type-var]
        if self._file.peek(len(_MARK)).startswith(_MARK):
            self._file.read(len(_MARK))
        self._is_array = self._file.peek(1).lstrip(_WHITE_SPACE).startswith(b"[")
        self.bad: type[BadRecord] = BadRow if self._is_array else BadRecord

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        """Yield (place, value) of each record; the value is a `BadRecord` if it is not JSON, which ends an array."""
        if self._is_array:
            yield from _items(self._file)
            return
        for line, text in numbered_lines(self._file):
            if isinstance(text, BadRecord):
                yield line, text
            elif text.strip():
                try:
                    yield line, parse_object(text)
                except RecordProblem as error:
                    yield line, BadRecord(line, str(error))


def _items(file: BinaryIO) -> Iterator[tuple[int, Any]]:
    items = enumerate(ijson.items(file, "item", use_float=True))
    place = -1
    while True:
        try:
            place, value = next(items)
        except StopIteration:
            return
        except (ijson.JSONError, ValueError, RecursionError) as error:
            yield place + 1, BadRow(place + 1, f"it is not JSON ({' '.join(str(error).split())})")
            return
        yield place, value


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

"""Rows of CSV and TSV, one at a time.

Python's reader is used, not Arrow's: its rows need not fit a block, and it keeps the rows before damage.
"""

import csv
import re
from collections.abc import Iterator
from typing import IO, Any

from pipelines.stages.records import MAX_RECORD_BYTES, RAW_BYTES, Reject
from pipelines.storage import open_input
from schemas.shards import Shard
from spanmarker_core.data.blocks import DamagedFile, content
from spanmarker_core.data.lines import byte_lines

#: Delimiters of fields, of which a file has the first that its header contains.
_DELIMITERS = {"csv": (",", ";", "\t", "|"), "tsv": ("\t",)}


def csv_rows(shard: Shard) -> Iterator[tuple[int, bytes, dict[str, Any]] | Reject]:
    """Yield (number of the row, its first bytes, values by column) for each row, and the reject of any other.

    The header has no number, and blank lines have none. A field that is not UTF-8 is returned as bytes.

    Args:
        shard: the shard, a whole file.

    Raises:
        OSError: the storage failed.
    """
    with open_input(shard.source) as file:
        lines, rows = _opened(file, shard.format)
        names: list[str] | None = None
        row = -1
        while True:
            lines.start_row()
            problem = None
            try:
                values = next(rows)
            except StopIteration:
                return
            except DamagedFile as error:
                problem = "damaged_file", f"cannot read anything from row {row + 1:,} on: {error}", 0
            except _LongLine as error:
                problem = "too_large", str(error), 1
            except csv.Error as error:
                code = "damaged_file" if lines.ended else "broken_csv"
                reason = "it contains a carriage return: end lines with LF or CRLF" if b"\r" in lines.raw else error
                problem = code, f"this is not a row of {shard.format.partition('.')[0].upper()}: {reason}", 1
            if problem is not None and names is None:  # the next line is not a header
                problem = problem[0], f"without a header no row can be read: {problem[1]}", 0
            if problem is None:
                if not values:
                    continue
                if names is None:
                    names = values
                    continue
                if len(values) != len(names):
                    problem = "ragged_row", f"the row has {len(values)} fields, but the header has {len(names)}", 1
            row += 1
            if problem is None and names is not None:
                yield row, lines.raw, dict(zip(names, lines.original(values), strict=True))
                continue
            assert problem is not None
            code, message, n_documents = problem
            yield Reject(None, shard.source, row, "read", code, message, lines.raw or None, n_documents=n_documents)
            if n_documents == 0:
                return


def csv_header(file: IO[bytes], kind: str) -> list[str]:
    """Return the names of the columns; none for an empty or damaged file.

    Args:
        file: the file, seekable.
        kind: its format.
    """
    _, rows = _opened(file, kind)
    try:
        return next((row for row in rows if row), [])
    except (DamagedFile, _LongLine, csv.Error):
        return []


def _opened(file: IO[bytes], kind: str) -> "tuple[_Lines, Iterator[list[str]]]":
    csv.field_size_limit(MAX_RECORD_BYTES)
    lines = _Lines(byte_lines(content(file, kind), 0, MAX_RECORD_BYTES))
    possible = _DELIMITERS[kind.partition(".")[0]]
    header = lines.peek() if len(possible) > 1 else ""
    names = _QUOTED.sub("", header)
    delimiter = next((each for each in possible if each in names), possible[0])
    return lines, csv.reader(lines, delimiter=delimiter, strict=True)


_QUOTED = re.compile('"[^"]*"')


class _LongLine(Exception):
    """A line exceeds the limit."""


class _Lines:
    """Lines as strings, with their newlines. It can be used after an exception, unlike a generator.

    Args:
        lines: (offset, line without its newline, bytes with it).

    Attributes:
        raw: first bytes of the lines since `start_row`.
        ended: whether there are no more lines.
    """

    def __init__(self, lines: Iterator[tuple[int, bytes, int]]) -> None:
        self._lines = lines
        self.raw, self.ended, self._invalid = b"", False, False
        self._held: list[tuple[int, bytes, int]] = []  # lines that `peek` has read
        self._damage: DamagedFile | None = None  # where it ended

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        try:
            if not self._held and self._damage is not None:
                raise self._damage
            _, line, n_bytes = self._held.pop(0) if self._held else next(self._lines)
        except StopIteration:
            self.ended = True
            raise
        if len(self.raw) < RAW_BYTES:
            self.raw = (self.raw + line[:RAW_BYTES] + b"\n")[:RAW_BYTES]
        if n_bytes > MAX_RECORD_BYTES + 1:
            raise _LongLine(f"the line has {n_bytes:,} bytes, but the limit is {MAX_RECORD_BYTES:,}")
        try:
            return line.decode() + "\n"
        except UnicodeDecodeError:
            self._invalid = True
            return line.decode("utf-8", "surrogateescape") + "\n"

    def peek(self) -> str:
        """Return the first line that is not blank, without taking it; nothing if the file is damaged or ends."""
        try:
            for found in self._lines:
                self._held.append(found)
                if line := found[1].strip():
                    return line.decode(errors="replace")
        except DamagedFile as error:
            self._damage = error
        return ""

    def start_row(self) -> None:
        """Forget the lines of the previous row."""
        self.raw, self._invalid = b"", False

    def original(self, values: list[str]) -> list[str | bytes]:
        """Return the fields of the row; those that are not UTF-8 as bytes."""
        if not self._invalid:
            return list(values)
        return [_encoded(value) for value in values]


def _encoded(value: str) -> str | bytes:
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogateescape")
    return value

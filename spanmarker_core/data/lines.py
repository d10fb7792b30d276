"""Lines of files, as bytes with their offsets or as numbered UTF-8 text."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from spanmarker_core.data.blocks import damage_as_errors, opened, utf8
from spanmarker_core.data.records import BadRecord
from spanmarker_core.errors import CoreError

#: Byte order mark at the start of a UTF-8 file, which is not part of its content.
BOM = b"\xef\xbb\xbf"

#: Bytes that are kept of the beginning of a line that is too long.
_HEAD_BYTES = 4096


def byte_lines(
    blocks: Iterable[bytes], position: int = 0, max_bytes: int | None = None
) -> Iterator[tuple[int, bytes, int]]:
    """Yield (byte offset, line without its newline, bytes with it) for each line; a byte order mark is dropped.

    Args:
        blocks: the content of a file in parts of any size, such as its lines.
        position: byte offset of the first block in the file.
        max_bytes: size of a line above which only its beginning is kept and yielded; None means no limit.

    >>> list(byte_lines([b"a\\nb", b"c\\n", b"d"], 10))
    [(10, b'a', 2), (12, b'bc', 3), (15, b'd', 1)]
    """
    parts: list[bytes] = []
    n_bytes = 0  # of the line so far
    for block in blocks:
        *ended, rest = block.split(b"\n")
        for end in ended:
            n_bytes += len(end) + 1
            line = b"".join([*parts, end]) if parts else end
            yield position, line if position else line.removeprefix(BOM), n_bytes
            position += n_bytes
            parts, n_bytes = [], 0
        n_bytes += len(rest)
        if max_bytes is None or n_bytes <= max_bytes:
            parts += [rest] if rest else []
        else:
            parts = [b"".join(parts)[:_HEAD_BYTES] or rest[:_HEAD_BYTES]]
    if n_bytes:
        line = b"".join(parts)
        yield position, line if position else line.removeprefix(BOM), n_bytes


def numbered_lines(file: Iterable[bytes]) -> Iterator[tuple[int, str | BadRecord]]:
    """Yield (line number from 1, text without line end) for each line, with a `BadRecord` if it is not UTF-8.

    Only LF and CRLF end a line, so a token may contain U+2028 or a vertical tab. UTF-16 with a mark is converted.

    Args:
        file: the content of a file in parts of any size, such as its lines.

    Raises:
        DamagedFile: see `utf8`.
    """
    for number, (_, line, _) in enumerate(byte_lines(utf8(file)), start=1):
        raw = line.removesuffix(b"\r")
        try:
            yield number, raw.decode("utf-8")
        except UnicodeDecodeError as error:
            problem = f"byte {error.start} (0x{raw[error.start]:02x}) is not UTF-8: convert the file to UTF-8"
            yield number, BadRecord(number, problem)


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, text without line end) for each line of a file; see `numbered_lines`.

    Args:
        path: the file, which may be compressed.

    Raises:
        CoreError: `data.bad_record` at the first line that is not UTF-8, `data.bad_dataset` for a damaged file.
    """
    with damage_as_errors(path), opened(path.open("rb"), path.name) as file:
        for number, text in numbered_lines(file):
            if isinstance(text, BadRecord):
                raise CoreError("data.bad_record", path=path, line=number, problem=text.problem)
            yield number, text

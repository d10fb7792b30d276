"""The content of a file as blocks of bytes or as a file: decompressed, in UTF-8 and in bounded memory."""

import bz2
import codecs
import contextlib
import errno
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import IO, Any, BinaryIO, Protocol, cast

from spanmarker_core.errors import CoreError

#: Bytes read or decompressed at once.
BLOCK_BYTES = 1 << 16

#: Bytes at the start of a file of records by which its format and its keys are recognised.
HEAD_BYTES = 1 << 20

#: Largest memory of an xz decompressor, in bytes; the strongest level of the usual program needs 65 MiB.
_XZ_MEMORY = 256 << 20

#: Bytes of Zstandard data decompressed at once: a block of 4 bytes can hold 128 KiB of text.
_ZSTD_BYTES = 256

#: Marks at the start of a file in an encoding other than UTF-8; the longer ones begin like the shorter ones.
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


_MAGIC = {b"\x1f\x8b": "gz", b"\x28\xb5\x2f\xfd": "zst", b"BZh": "bz2", b"\xfd7zXZ\0": "xz"}


class DamagedFile(Exception):
    """Data are damaged or truncated."""


def content(file: IO[bytes], kind: str) -> Iterator[bytes]:
    """Yield the content of a file, decompressed and in UTF-8, in bounded blocks; a byte order mark of UTF-8 is kept.

    Args:
        file: the file, seekable.
        kind: its format, whose part after the dot is the compression.

    Raises:
        DamagedFile: see `decompressed`; or UTF-16 ends in the middle of a character.
        OSError: the storage failed.
    """
    return utf8(decompressed(file, kind))


def with_head(blocks: Iterable[bytes], n_bytes: int = HEAD_BYTES) -> tuple[bytes, Iterator[bytes]]:
    """Return the beginning of content, up to any damage, and all of the content, which raises the damage.

    Args:
        blocks: the content in parts of any size.
        n_bytes: minimum size of the beginning, in bytes, if the content has as many.
    """
    blocks, head = iter(blocks), b""
    try:
        for block in blocks:
            head += block
            if len(head) >= n_bytes:
                break
    except DamagedFile as error:
        blocks = raised(error)
    return head, chain([head], blocks)


def raised(error: Exception) -> Iterator[Any]:
    """Return an iterator that raises an error: what follows the items that were read ahead of it.

    Args:
        error: the error.
    """
    raise error
    yield


def encoding_of(start: bytes) -> str | None:
    """Return the encoding that a mark at the start of a file names; None for UTF-8, with or without a mark.

    Args:
        start: at least the first four bytes of the file, if it has them.
    """
    return next((encoding for mark, encoding in _MARKS.items() if start.startswith(mark)), None)


def compression_of(start: bytes) -> str | None:
    """Return the compression that the first bytes of a file show; None if they show none.

    Args:
        start: at least the first six bytes of the file, if it has them.
    """
    return next((compression for mark, compression in _MAGIC.items() if start.startswith(mark)), None)


def utf8(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield content in UTF-8 that is in the encoding that its first bytes name; see `encoding_of`.

    Args:
        blocks: the content in parts of any size.

    Raises:
        DamagedFile: UTF-16 or UTF-32 ends in the middle of a character.
    """
    blocks, start = iter(blocks), b""
    for block in blocks:
        start += block
        if len(start) >= 4:
            break
    encoding = encoding_of(start)
    if encoding is None:
        yield start
        yield from blocks
        return
    # An unpaired surrogate becomes invalid UTF-8, so that it costs one record.
    decoder = codecs.getincrementaldecoder(encoding)("surrogatepass")
    try:
        yield decoder.decode(start).encode("utf-8", "surrogatepass")
        for block in blocks:
            yield decoder.decode(block).encode("utf-8", "surrogatepass")
        decoder.decode(b"", final=True)
    except UnicodeError as error:
        raise DamagedFile(str(error)) from None


def decompressed(file: IO[bytes], kind: str) -> Iterator[bytes]:
    """Yield the content of a file in bounded blocks; one or more compressed streams are concatenated.

    Args:
        file: the file, seekable.
        kind: its format, whose part after the dot is the compression: gz, zst, bz2 or xz.

    Raises:
        DamagedFile: the compressed data are damaged, end in the middle of a stream, or are missing.
        OSError: the storage failed.
    """
    blocks = _COMPRESSIONS.get(kind.rpartition(".")[2])
    file.seek(0)
    if blocks is not None and not file.read(1):
        raise DamagedFile("the file is empty")
    file.seek(0)
    try:
        yield from (blocks or _plain)(file)
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise DamagedFile(str(error)) from None
    except OSError as error:
        if blocks is None or is_storage_error(error):
            raise
        raise DamagedFile(str(error)) from None


def _plain(file: IO[bytes]) -> Iterator[bytes]:
    while block := file.read(BLOCK_BYTES):
        yield block


def _gzip(file: IO[bytes]) -> Iterator[bytes]:
    # It accepts zeros behind the data. `read` would lose the data before an error.
    with gzip.GzipFile(fileobj=file) as stream:
        while block := stream.read1(BLOCK_BYTES):
            yield block


class _Stream(Protocol):
    """A decompressor of one stream, as in `lzma` and `bz2`."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _ZstdFrame:
    """A frame of Zstandard as a `_Stream`. It has no limit of its output, so its input must be small."""

    def __init__(self) -> None:
        import zstandard  # imported late, because few files need it

        self._error = zstandard.ZstdError
        self._frame = zstandard.ZstdDecompressor().decompressobj()

    @property
    def needs_input(self) -> bool:
        return True

    @property
    def eof(self) -> bool:
        return self._frame.eof

    @property
    def unused_data(self) -> bytes:
        return self._frame.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        try:
            return self._frame.decompress(data)
        except self._error as error:
            raise DamagedFile(str(error)) from None


def _streams(new: Callable[[], _Stream], n_bytes: int = BLOCK_BYTES) -> Callable[[IO[bytes]], Iterator[bytes]]:
    """Return a reader of a file of streams, one after the other; zeros between and behind them are padding.

    Args:
        new: makes the decompressor of a stream.
        n_bytes: bytes of the file that are read at once.
    """

    def blocks(file: IO[bytes]) -> Iterator[bytes]:
        data = file.read(n_bytes)
        while data:
            stream = new()
            while not stream.eof:
                if block := stream.decompress(data, BLOCK_BYTES):
                    yield block
                data = b""
                if stream.needs_input and not stream.eof and not (data := file.read(n_bytes)):
                    raise EOFError("the compressed data end early")
            data = stream.unused_data.lstrip(b"\0")
            while not data and (more := file.read(n_bytes)):
                data = more.lstrip(b"\0")

    return blocks


def _xz_stream() -> _Stream:
    return lzma.LZMADecompressor(memlimit=_XZ_MEMORY)


_COMPRESSIONS: dict[str, Callable[[IO[bytes]], Iterable[bytes]]] = {
    "gz": _gzip,
    "zst": _streams(_ZstdFrame, _ZSTD_BYTES),
    "bz2": _streams(bz2.BZ2Decompressor),
    "xz": _streams(_xz_stream),
}
#: Compressions of files, as endings of names without the dot.
COMPRESSIONS = tuple(_COMPRESSIONS)


def uncompressed_name(path: str) -> tuple[str, str]:
    """Return the name of a file without the ending of its compression, and the compression; "" if it has none.

    >>> uncompressed_name("a/b.json.GZ"), uncompressed_name("a/b.json")
    (('a/b.json', 'gz'), ('a/b.json', ''))

    Args:
        path: a path or URL.
    """
    name, _, ending = path.rpartition(".")
    return (name, ending.lower()) if name and ending.lower() in COMPRESSIONS else (path, "")


def opened(file: IO[bytes], path: str) -> BinaryIO:
    """Return a file's content as a file, decompressed if its name says that it is compressed.

    Reading raises `DamagedFile` where the compressed data are damaged.

    Args:
        file: the file, open for reading and seekable; it is closed with the result.
        path: its name.
    """
    compression = uncompressed_name(path)[1]
    return as_file(decompressed(file, compression), file.close) if compression else cast(BinaryIO, file)


def as_file(blocks: Iterator[bytes], close: Callable[[], object] = lambda: None) -> BinaryIO:
    """Return content as a file for reading from its beginning to its end.

    Args:
        blocks: the content in parts of any size.
        close: called when the file is closed.
    """
    return cast(BinaryIO, io.BufferedReader(_Blocks(blocks, close)))


class _Blocks(io.RawIOBase):
    def __init__(self, blocks: Iterator[bytes], close: Callable[[], object]) -> None:
        self._blocks, self._close, self._rest = blocks, close, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview") -> int:  # type: ignore[override]
        while not self._rest and (block := next(self._blocks, None)) is not None:  # an empty block is not the end
            self._rest = memoryview(block)
        part, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        self._close()
        super().close()


@contextlib.contextmanager
def damage_as_errors(path: str | Path) -> Iterator[None]:
    """Turn damage of a file into a coded error.

    Args:
        path: the file, for the message.

    Raises:
        CoreError: `data.bad_dataset`.
    """
    try:
        yield
    except DamagedFile as error:
        raise CoreError(
            "data.bad_dataset", path=path, problem=f"the file is damaged or incomplete ({error})"
        ) from error


def is_storage_error(error: Exception) -> bool:
    """Distinguish a fault of the disk or the store from damaged content, for which Arrow also raises an OSError.

    Args:
        error: the error.

    >>> is_storage_error(OSError("Corrupt snappy compressed data.")), is_storage_error(OSError(5, "I/O error"))
    (False, True)
    """
    if type(error) is OSError:  # Arrow sets no number, except EINVAL where damage leads to invalid offsets.
        return error.errno is not None and error.errno != errno.EINVAL
    return isinstance(error, OSError)

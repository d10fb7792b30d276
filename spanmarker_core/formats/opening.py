"""Opens compressed files."""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, BinaryIO, cast

import zstandard

from spanmarker_core.errors import CoreError

COMPRESSED = (".gz", ".zst", ".bz2", ".xz")

_DAMAGE = (EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError, gzip.BadGzipFile)


def decompressed(file: IO[bytes], path: str) -> BinaryIO:
    """Return a file's content as a file, decompressed if its name says that it is compressed.

    Args:
        file: the file, open for reading; it is closed with the result.
        path: its name.
    """
    match path.lower()[path.rfind(".") :]:
        case ".gz":
            found = _Owner(gzip.GzipFile(fileobj=file), file)
        case ".bz2":
            found = _Owner(bz2.BZ2File(file), file)
        case ".xz":
            found = _Owner(lzma.LZMAFile(file), file)  # noqa: SIM115 - closed by its owner
        case ".zst":
            found = _Owner(zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True), file)
        case _:
            return cast(BinaryIO, file)
    return cast(BinaryIO, io.BufferedReader(found))


class _Owner(io.RawIOBase):
    """A decompressor that closes the file below it."""

    def __init__(self, inner: Any, file: IO[bytes]) -> None:
        self._inner, self._file = inner, file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview") -> int:  # type: ignore[override]
        block = self._inner.read(len(buffer)) or b""
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        if not self.closed:
            self._inner.close()
            self._file.close()
        super().close()


@contextmanager
def damage_as_errors(path: str) -> Iterator[None]:
    """Turn the errors of decompressors into a coded error.

    Args:
        path: the file, for the message.

    Raises:
        CoreError: `data.bad_dataset`.
    """
    try:
        yield
    except _DAMAGE as error:
        raise CoreError("data.bad_dataset", path=path, problem=f"the compressed file is damaged ({error})") from error

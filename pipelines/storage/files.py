"""Reading and removing files, and detecting whether they changed."""

import contextlib
import hashlib
import io
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

import fsspec

from pipelines.storage.faults import translate_storage_errors, with_retries
from pipelines.storage.folders import paged
from pipelines.storage.outputs import writing
from pipelines.storage.urls import is_local, resolve

_BLOCK = 1 << 20
_READERS = 16  # small files fetched from a store in parallel


def open_input(url: str) -> IO[bytes]:
    """Open a file for reading; the file is seekable.

    Args:
        url: a path or URL.

    Raises:
        OSError: on opening or on reading. Faults of the store are `StorageError`s, never the errors of damaged content.
    """
    fs, path = resolve(url)
    if is_local(fs):
        return open(path, "rb")
    with translate_storage_errors(url):
        return io.BufferedReader(_StoreFile(url, fs, with_retries(fs, lambda: fs.open(path, "rb", block_size=_BLOCK))))


class _StoreFile(io.RawIOBase):
    """A file in a store. Its OSErrors can be distinguished from those of damaged content."""

    def __init__(self, url: str, fs: fsspec.AbstractFileSystem, file: IO[bytes]) -> None:
        self._url, self._fs, self._file = url, fs, file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def readinto(self, buffer: Any) -> int:
        with translate_storage_errors(self._url):
            # A failed read leaves the position unchanged.
            block = with_retries(self._fs, lambda: self._file.read(len(buffer)))
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def read_range(file: IO[bytes], start: int, end: int) -> Iterator[bytes]:
    """Yield the bytes [start, end) of a file in blocks; fewer if the file ends before `end`.

    Args:
        file: a seekable file.
        start: first byte.
        end: one past the last byte.
    """
    file.seek(start)
    while start < end and (block := file.read(min(_BLOCK, end - start))):
        start += len(block)
        yield block


def exists(url: str) -> bool:
    """Return whether a file exists.

    Args:
        url: a path or URL.
    """
    fs, path = resolve(url)
    with translate_storage_errors(url):
        return bool(fs.exists(path) if is_local(fs) else with_retries(fs, lambda: fs.exists(path)))


def size_of(url: str) -> int | None:
    """Return the size of a file in bytes; None if it does not exist.

    Args:
        url: a path or URL.
    """
    fs, path = resolve(url)
    with contextlib.suppress(FileNotFoundError), translate_storage_errors(url):
        return int(fs.size(path) if is_local(fs) else with_retries(fs, lambda: fs.size(path)))
    return None


def remove(url: str) -> None:
    """Remove a file, if it exists.

    Args:
        url: a path or URL.
    """
    fs, path = resolve(url)
    with contextlib.suppress(FileNotFoundError), translate_storage_errors(url):
        with_retries(fs, lambda: fs.rm_file(path))


def read_all(urls: list[str]) -> list[bytes]:
    """Return the contents of small files, in order, fetched in parallel from a store.

    Args:
        urls: paths or URLs, all in one store.
    """
    if not urls:
        return []
    fs, _ = resolve(urls[0])
    paths = [resolve(url)[1] for url in urls]
    # Not `fs.cat`: it treats a `[` in a name as a wildcard.
    with translate_storage_errors(urls[0]), ThreadPoolExecutor(1 if is_local(fs) else _READERS) as pool:
        return list(pool.map(lambda path: with_retries(fs, lambda: fs.cat_file(path)), paths))


def make_folder(url: str) -> None:
    """Create a folder, where the store has folders; a bucket must exist already.

    Args:
        url: a path or URL.

    Raises:
        PipelineError: `url.no_bucket`, `url.unusable`, `output.not_writable`.
    """
    fs, path = resolve(url)
    with writing(url), translate_storage_errors(url):
        if not in_bucket(fs, path):
            fs.makedirs(path, exist_ok=True)


def in_bucket(fs: fsspec.AbstractFileSystem, path: str) -> bool:
    """Return whether a store has buckets instead of folders, after checking that the bucket of `path` exists.

    Args:
        fs: the file system.
        path: a path in it.

    Raises:
        PipelineError: `url.no_bucket`.
    """
    pages = paged(fs, path)
    if pages is not None:
        next(pages)
    return pages is not None


class ContentIdentity:
    """Identity of the content of byte ranges of one file, which reveals changes.

    Local files are read and hashed. For an object in a store, the store's own identifier (ETag or MD5, otherwise the
    times) is used; it covers the whole object.

    Args:
        url: the file's path or URL.
        file: the same file, open for reading.
    """

    def __init__(self, url: str, file: IO[bytes]) -> None:
        fs, path = resolve(url)
        self._file = file
        self._word: str | None = None
        if not is_local(fs):
            with translate_storage_errors(url):
                self._word = _store_identity(with_retries(fs, lambda: fs.info(path)))

    def of(self, ranges: Iterable[tuple[int, int]]) -> str:
        """Return the identity of the bytes in some ranges.

        Args:
            ranges: half-open `(start, end)` ranges, in bytes.
        """
        if self._word is not None:
            return self._word
        digest = hashlib.blake2b(digest_size=16)
        for start, end in ranges:
            for block in read_range(self._file, start, end):
                digest.update(block)
        return digest.hexdigest()


def _store_identity(info: dict[str, Any]) -> str:
    keys = (
        "ETag",
        "etag",
        "md5Hash",
        "content_md5",
        "checksum",
        "mtime",
        "LastModified",
        "last_modified",
        "created",
    )
    word = next((f"{key}={info[key]}" for key in keys if info.get(key)), "")
    return f"{word} size={info.get('size')}"

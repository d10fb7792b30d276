"""Files, wherever they are: listing, opening, publishing whole or not at all. Any fsspec URL will do.

A path without a scheme is local. An output is always written to a local scratch file first. On a local
disk that file lies in the target's folder, is synced and renamed; for any other store it is uploaded in
one go, which shows the object when it is complete and not before.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import stat
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any, NamedTuple

import fsspec
from fsspec.implementations.local import LocalFileSystem

from pipelines.errors import PipelineError
from spanmarker_core.errors import CodedError

_BLOCK = 1 << 20
_SCRATCH_ENDING = ".scratch"
_READERS = 16  # small files fetched from a store at once


#: The extra of this package that brings each store.
_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs", "az": "azure", "abfs": "azure", "abfss": "azure"}
_LOCAL = LocalFileSystem()


def resolve(url: str) -> tuple[fsspec.AbstractFileSystem, str]:
    """Return the file system of `url` and the path in it (absolute where local).

    What has no `://` is a local path, whatever else its name holds.

    Raises:
        PipelineError: `url.unusable`.
    """
    protocol, mark, rest = url.partition("://")
    if not mark or url.startswith("/"):
        return _LOCAL, _local_path(url)
    if protocol in _LOCAL.protocol:
        return _LOCAL, _local_path(rest)
    with reaching(url, passes=()):
        # fsspec's own `url_to_fs` would take a `::` in a name for a chain of stores.
        kind = fsspec.get_filesystem_class(protocol)
        return fsspec.filesystem(protocol, **kind._get_kwargs_from_urls(url)), kind._strip_protocol(url)


def _local_path(path: str) -> str:
    return os.path.join(os.getcwd(), os.path.expanduser(path)).rstrip("/") or "/"


@contextlib.contextmanager
def reaching(url: str, passes: tuple[type[Exception], ...] = (OSError,)) -> Iterator[None]:
    """Turn whatever a store's library raises into a coded error: it is missing, has no credentials, is misused.

    What says that a file is not there, or can't be read, `passes`: it is the caller's to tell.
    """
    try:
        yield
    except CodedError:
        raise
    except passes:
        raise
    except Exception as error:
        reason = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
        remedy = ""
        if isinstance(error, ImportError) and (extra := _EXTRAS.get(url.partition("://")[0])):
            remedy = f" Install it: pip install 'spanmarker-pipelines[{extra}]'."
        elif "::" in url:
            remedy = " Stores within stores (::) are not supported."
        raise PipelineError("url.unusable", url=url, reason=reason.rstrip("."), remedy=remedy) from error


def absolute(url: str) -> str:
    """Return the one spelling of `url` that this program stores: a local path without links, or a URL.

    >>> absolute("memory://folder/a.txt"), absolute("file:///data//x/../a.txt")
    ('memory:///folder/a.txt', '/data/a.txt')
    """
    fs, path = resolve(url)
    return spell(fs, os.path.realpath(path) if isinstance(fs, LocalFileSystem) else path)


def spell(fs: fsspec.AbstractFileSystem, path: str) -> str:
    """Return the absolute path or the URL of a path in a file system."""
    return path if isinstance(fs, LocalFileSystem) else fs.unstrip_protocol(path)


def join(folder: str, *names: str) -> str:
    """Join a folder and names below it; all stores take forward slashes."""
    return "/".join([folder.rstrip("/"), *names])


class Listed(NamedTuple):
    """What is in a folder. `kind` is "file", "directory" or "other" (a pipe, a socket, a device, a link to nothing)."""

    path: str
    kind: str
    size: int
    is_link: bool


def listing(fs: fsspec.AbstractFileSystem, folder: str) -> list[Listed]:
    """Return what is in a folder, sorted; nothing if there is none. Links are what they lead to."""
    try:
        if isinstance(fs, LocalFileSystem):
            with os.scandir(folder or "/") as entries:
                return sorted(
                    Listed(f"{folder}/{entry.name}", *local_kind(entry.path), entry.is_symlink()) for entry in entries
                )
        infos = fs.ls(folder or "/", detail=True, refresh=True)
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = (Listed(info["name"].rstrip("/"), info["type"], info.get("size") or 0, False) for info in infos)
    # Some stores list a folder's own marker in it.
    return sorted(entry for entry in found if entry.path != folder)


def local_kind(path: str) -> tuple[str, int]:
    """Return the kind, as in `Listed`, and the size of what a local path leads to."""
    try:
        found = os.stat(path)
    except OSError:
        return "other", 0
    kind = "directory" if stat.S_ISDIR(found.st_mode) else "file" if stat.S_ISREG(found.st_mode) else "other"
    return kind, found.st_size


def names_in(folder: str, ending: str) -> Iterator[str]:
    """Yield the names, without `ending`, of the files in `folder` that have it; none if it isn't there."""
    return (name for name, _ in sizes_in(folder, ending))


def sizes_in(folder: str, ending: str) -> Iterator[tuple[str, int]]:
    """Yield what `names_in` does, each with the file's size in bytes."""
    fs, path = resolve(folder)
    for name, _, size, _ in listing(fs, path):
        if name.endswith(ending) and not (short := name.rpartition("/")[2]).startswith("."):
            yield short.removesuffix(ending), size


def open_input(url: str) -> IO[bytes]:
    """Open a file for reading, seekable."""
    fs, path = resolve(url)
    return open(path, "rb") if isinstance(fs, LocalFileSystem) else fs.open(path, "rb", block_size=_BLOCK)


def read_range(file: IO[bytes], start: int, end: int) -> Iterator[bytes]:
    """Yield the bytes [start, end) of a seekable file in blocks; fewer if it ends before."""
    file.seek(start)
    while start < end and (block := file.read(min(_BLOCK, end - start))):
        start += len(block)
        yield block


def exists(url: str) -> bool:
    """Tell whether there is a file at `url`."""
    fs, path = resolve(url)
    with reaching(url):
        return bool(fs.exists(path))


def remove(url: str) -> None:
    """Remove a file; it may be gone already."""
    fs, path = resolve(url)
    with contextlib.suppress(FileNotFoundError):
        fs.rm_file(path)


def read_all(urls: list[str]) -> list[bytes]:
    """Return the contents of small files of one store, fetched at once where the store can."""
    if not urls:
        return []
    fs, _ = resolve(urls[0])
    paths = [resolve(url)[1] for url in urls]
    # Not `fs.cat`, which takes a `[` in a name for a wildcard.
    with ThreadPoolExecutor(1 if isinstance(fs, LocalFileSystem) else _READERS) as pool:
        return list(pool.map(fs.cat_file, paths))


def make_folder(url: str) -> None:
    """Make a folder, where the store has such a thing."""
    fs, path = resolve(url)
    with writing(url), reaching(url):
        fs.makedirs(path, exist_ok=True)


@contextlib.contextmanager
def writing(url: str) -> Iterator[None]:
    """Turn what a full disk, a missing permission or a lost store raises into a coded error."""
    try:
        yield
    except OSError as error:
        raise PipelineError("output.not_writable", path=url, reason=_reason(error)) from error


def _reason(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


@contextlib.contextmanager
def publish(url: str) -> Iterator[IO[bytes]]:
    """Open a file for writing that appears at `url` whole, when the block ends well, or not at all.

    The file yielded is a real local file. If the block raises, nothing is left behind; if the process dies,
    a scratch file may stay, which `remove_scratch` clears.
    """
    fs, path = resolve(url)
    local = isinstance(fs, LocalFileSystem)
    folder, _, name = path.rpartition("/")
    scratch_folder = folder if local else tempfile.gettempdir()
    scratch = os.path.join(scratch_folder, f".{name}.{secrets.token_hex(4)}{_SCRATCH_ENDING}")
    try:
        with writing(url):
            file = open(scratch, "xb")  # noqa: SIM115 - closed below, where its error is the disk's
        try:
            yield file
            with writing(url):
                file.flush()
                os.fsync(file.fileno())
                file.close()
        finally:
            with contextlib.suppress(OSError):  # On a full disk this one fails like the write that is reported.
                file.close()
        with writing(url):
            if local:
                os.replace(scratch, path)
                _sync_folder(folder)
            else:
                with reaching(url):
                    fs.put_file(scratch, path)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(scratch)


def publish_bytes(url: str, content: bytes) -> None:
    """Publish a small file whole."""
    with publish(url) as file, writing(url):
        file.write(content)


def _sync_folder(folder: str) -> None:
    # A rename is on the disk when its folder is. Windows can't open folders and needs no such thing.
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def remove_scratch(folders: Iterable[str]) -> None:
    """Remove what processes that died left in local output folders."""
    for url in folders:
        fs, path = resolve(url)
        if isinstance(fs, LocalFileSystem) and os.path.isdir(path):
            for name in os.listdir(path):
                if name.startswith(".") and name.endswith(_SCRATCH_ENDING):
                    with writing(url), contextlib.suppress(FileNotFoundError):
                        os.unlink(os.path.join(path, name))


@contextlib.contextmanager
def sole_writer(folder: str) -> Iterator[None]:
    """Keep a second job out of a local output folder while the block runs.

    The lock goes with the process, however it ends. Object stores have no such lock.

    Raises:
        PipelineError: `output.busy`.
    """
    fs, path = resolve(folder)
    if not isinstance(fs, LocalFileSystem):
        yield
        return
    with contextlib.ExitStack() as stack:
        with writing(folder):
            lock = stack.enter_context(open(os.path.join(path, ".lock"), "ab"))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PipelineError("output.busy", path=folder) from None
        except OSError:  # A network disk without locks.
            pass
        yield


class ContentIdentity:
    """Says what the content of byte ranges of one file is, so that a change of it is seen.

    Local files are read and hashed. A store's own word (ETag, MD5, else times) is taken for its objects,
    and holds for the whole object.
    """

    def __init__(self, url: str, file: IO[bytes]) -> None:
        fs, path = resolve(url)
        self._file = file
        self._word = None if isinstance(fs, LocalFileSystem) else _store_identity(fs.info(path))

    def of(self, ranges: Iterable[tuple[int, int]]) -> str:
        """Return the identity of the bytes in half-open `(start, end)` ranges."""
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


def is_storage_fault(error: Exception) -> bool:
    """Tell a fault of the disk or the store from damaged content, which Arrow raises as OSError as well.

    >>> is_storage_fault(OSError("Corrupt snappy compressed data.")), is_storage_fault(OSError(5, "I/O error"))
    (False, True)
    """
    if type(error) is OSError:  # Arrow's has no number, but for EINVAL, where damage sends it to odd offsets.
        return error.errno is not None and error.errno != errno.EINVAL
    return isinstance(error, OSError)

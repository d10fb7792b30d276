"""Folder listings. Stores are queried page by page, and memory holds at most a few thousand names.

The order of a store's listing varies: S3 and Google sort by the bytes of whole keys, where `a-b` comes before `a/`;
others do not sort. A sorted listing is therefore sorted here, in runs that are written to disk if there is more than
one.

fsspec's own listings return a whole folder at once, and keep it in memory; hence the requests for pages below.
"""

import heapq
import itertools
import json
import operator
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple

import fsspec
from fsspec.asyn import sync

from pipelines.errors import PipelineError
from pipelines.storage.faults import translate_storage_errors, with_retries
from pipelines.storage.options import FAMILIES
from pipelines.storage.urls import is_local, normalise_url, resolve

#: Names in a run, which is sorted in memory.
RUN = 10_000
_PAGE = 1000  # names per request; the maximum of S3
_BLOCK = 1 << 14  # bytes of each run on disk that are held in memory


class Listed(NamedTuple):
    """An entry of a folder.

    Attributes:
        path: its path in the file system.
        kind: "file", "directory" or "other" (a pipe, a socket, a device, a broken link).
        size: size in bytes.
        is_link: whether it is a symbolic link.
    """

    path: str
    kind: str
    size: int
    is_link: bool


def listing(fs: fsspec.AbstractFileSystem, folder: str) -> Iterator[Listed]:
    """Yield the entries of a folder, sorted by name; none if it does not exist.

    A file comes before the folder of the same name. Links are followed. Some stores repeat a folder on each page: it is
    yielded once.

    Args:
        fs: the file system.
        folder: a path in it.
    """
    return (next(same) for _, same in itertools.groupby(_sorted(fs, folder), key=_order))


def _sorted(fs: fsspec.AbstractFileSystem, folder: str) -> Iterator[Listed]:
    found = entries(fs, folder)
    runs: list[tuple[int, int]] = []  # (offset, end) in the file
    run = sorted(itertools.islice(found, RUN), key=_order)
    if len(run) < RUN:
        yield from run
        return
    with tempfile.TemporaryFile() as file:
        while run:
            start = file.tell()
            for entry in run:
                file.write(json.dumps(entry).encode() + b"\n")
            runs.append((start, file.tell()))
            run = sorted(itertools.islice(found, RUN), key=_order)
        file.flush()
        yield from heapq.merge(*(_read_run(file, start, end) for start, end in runs), key=_order)


def _order(entry: Listed) -> tuple[str, bool]:
    return entry.path, entry.kind == "directory"


def _read_run(file: IO[bytes], start: int, end: int) -> Iterator[Listed]:
    rest = b""
    while start < end:
        block = os.pread(file.fileno(), min(_BLOCK, end - start), start)
        start += len(block)
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            yield Listed(*json.loads(line))


def entries(fs: fsspec.AbstractFileSystem, folder: str) -> Iterator[Listed]:
    """Yield the entries of a folder in the order of the store; none if the folder does not exist.

    Args:
        fs: the file system.
        folder: a path in it.

    Raises:
        PipelineError: `url.no_bucket`.
        OSError: the storage failed.
    """
    if is_local(fs):
        try:
            found = os.scandir(folder or "/")
        except (FileNotFoundError, NotADirectoryError):
            return
        with found:
            for entry in found:
                yield Listed(f"{folder}/{entry.name}", *local_kind(entry.path), entry.is_symlink())
        return
    pages = paged(fs, folder)
    if pages is not None:
        yield from itertools.chain.from_iterable(pages)
        return
    try:
        infos = with_retries(fs, lambda: fs.ls(folder or "/", detail=True, refresh=True))
    except (FileNotFoundError, NotADirectoryError):
        return
    for info in infos:
        # Some stores list the marker object of a folder among its entries.
        if (path := info["name"].rstrip("/")) != folder:
            yield Listed(path, info["type"], info.get("size") or 0, False)


def paged(fs: fsspec.AbstractFileSystem, folder: str) -> Iterator[list[Listed]] | None:
    """Return the pages of a listing in a bucket; None for stores without paged listings.

    Args:
        fs: the file system.
        folder: a path in it.
    """
    protocol = fs.protocol if isinstance(fs.protocol, str) else fs.protocol[0]
    next_page = _NEXT_PAGE.get(FAMILIES.get(protocol, protocol))
    if next_page is None or not folder:
        return None
    bucket, key, *_ = fs.split_path(folder)
    prefix = f"{key}/" if key else ""
    return _pages(fs, next_page, bucket, prefix, folder.removesuffix(key).rstrip("/") + "/")


def _pages(
    fs: fsspec.AbstractFileSystem, next_page: "_NextPage", bucket: str, prefix: str, before: str
) -> Iterator[list[Listed]]:
    token: str | None = None
    while True:
        try:
            folders, files, token = with_retries(fs, lambda: next_page(fs, bucket, prefix, token))  # noqa: B023
        except FileNotFoundError as error:  # The bucket is missing: a prefix without objects gives an empty page.
            raise PipelineError("url.no_bucket", bucket=normalise_url(fs, bucket)) from error
        page = [Listed(before + name.rstrip("/"), "directory", 0, False) for name in folders]
        page += [Listed(before + name, "file", size, False) for name, size in files]
        # The folder's marker object, and names that begin with a slash, are not files in it.
        yield [entry for entry in page if len(entry.path) > len(before + prefix)]
        if not token:
            return


# (file system, bucket, prefix, token of the page) -> folders, files with their sizes, token of the next page
_Page = tuple[list[str], list[tuple[str, int]], str | None]
_NextPage = Callable[[fsspec.AbstractFileSystem, str, str, str | None], _Page]


def _s3_page(fs: fsspec.AbstractFileSystem, bucket: str, prefix: str, token: str | None) -> _Page:
    more = {"ContinuationToken": token} if token else {}
    page = fs.call_s3("list_objects_v2", Bucket=bucket, Prefix=prefix, Delimiter="/", MaxKeys=_PAGE, **more)
    folders = [folder["Prefix"] for folder in page.get("CommonPrefixes", ())]
    files = [(found["Key"], found["Size"]) for found in page.get("Contents", ())]
    return folders, files, page["NextContinuationToken"] if page.get("IsTruncated") else None


def _gcs_page(fs: fsspec.AbstractFileSystem, bucket: str, prefix: str, token: str | None) -> _Page:
    options = {"prefix": prefix, "delimiter": "/", "maxResults": _PAGE, "pageToken": token}
    given = {key: value for key, value in options.items() if value}
    page = fs.call("GET", "b/{}/o", bucket, json_out=True, **given)
    files = [(found["name"], int(found["size"])) for found in page.get("items", ())]
    return page.get("prefixes", []), files, page.get("nextPageToken")


def _azure_page(fs: fsspec.AbstractFileSystem, bucket: str, prefix: str, token: str | None) -> _Page:
    async def fetch() -> tuple[list[Any], str | None]:
        async with fs.service_client.get_container_client(container=bucket) as container:
            found = container.walk_blobs(
                name_starts_with=prefix or None, include=["metadata"], delimiter="/", results_per_page=_PAGE
            )
            pages = found.by_page(token)
            return [entry async for entry in await anext(pages)], pages.continuation_token

    found, following = sync(fs.loop, fetch)
    folders = [entry.name for entry in found if entry.name.endswith("/")]
    # Accounts with real folders also list them as blobs.
    files = [
        (entry.name, entry.size)
        for entry in found
        if not entry.name.endswith("/") and (entry.metadata or {}).get("hdi_isfolder") != "true"
    ]
    return folders, files, following


_NEXT_PAGE: dict[str, _NextPage] = {"s3": _s3_page, "gs": _gcs_page, "az": _azure_page}


def local_kind(path: str) -> tuple[str, int]:
    """Return the kind (see `Listed`) and the size in bytes of a local file or folder, with links followed.

    Args:
        path: a local path.
    """
    try:
        found = os.stat(path)
    except OSError:
        return "other", 0
    kind = "directory" if stat.S_ISDIR(found.st_mode) else "file" if stat.S_ISREG(found.st_mode) else "other"
    return kind, found.st_size


def names_in(folder: str, ending: str) -> Iterator[str]:
    """Yield the names of a folder's files with a given ending, without that ending, in any order.

    Args:
        folder: a path or URL; a folder that does not exist is empty.
        ending: the ending, such as ".json".
    """
    return map(operator.itemgetter(0), sizes_in(folder, ending))


def sizes_in(folder: str, ending: str) -> Iterator[tuple[str, int]]:
    """Yield the names of `names_in`, each with the file's size in bytes.

    Args:
        folder: a path or URL; a folder that does not exist is empty.
        ending: the ending, such as ".json".
    """
    fs, path = resolve(folder)
    with translate_storage_errors(folder):
        for name, _, size, _ in entries(fs, path):
            if name.endswith(ending) and not (short := name.rpartition("/")[2]).startswith("."):
                yield short.removesuffix(ending), size

"""Names of files, and the stores that they are in."""

import os
import re

import fsspec
from fsspec.implementations.local import LocalFileSystem

from pipelines.errors import PipelineError
from pipelines.storage.faults import translate_storage_errors
from pipelines.storage.options import is_protocol, options_for

_LOCAL = LocalFileSystem()
_ONE_SLASH = re.compile(r"([a-z][a-z0-9+.-]*):/(?!/)(.*)")


def resolve(url: str) -> tuple[fsspec.AbstractFileSystem, str]:
    """Return the file system of a URL, and the path in it; a local path is absolute.

    A name without `://` is a local path, whatever else it contains. The exception is `s3:/bucket`, the result of
    passing a URL through `pathlib`, which raises an error.

    Args:
        url: a path or URL.

    Raises:
        PipelineError: `url.unusable`.
    """
    protocol, mark, rest = url.partition("://")
    if not mark or url.startswith("/"):
        if (cut := _ONE_SLASH.fullmatch(url)) and is_protocol(cut[1]):
            remedy = f" Pass {cut[1]}://{cut[2]} as a string: pathlib.Path removes a slash."
            raise PipelineError("url.unusable", url=url, reason="a slash is missing", remedy=remedy)
        return _LOCAL, _local_path(url)
    if protocol in _LOCAL.protocol:
        return _LOCAL, _local_path(rest)
    with translate_storage_errors(url, passes=()):
        # fsspec's `url_to_fs` would read a `::` in a name as a chain of stores.
        kind = fsspec.get_filesystem_class(protocol)
        options = options_for(protocol) | kind._get_kwargs_from_urls(url)
        return fsspec.filesystem(protocol, **options), kind._strip_protocol(url)


def _local_path(path: str) -> str:
    return os.path.join(os.getcwd(), os.path.expanduser(path)).rstrip("/") or "/"


def is_local(fs: fsspec.AbstractFileSystem) -> bool:
    """Return whether a file system is this machine's.

    Args:
        fs: the file system.
    """
    return isinstance(fs, LocalFileSystem)


def absolute(url: str) -> str:
    """Return the normalised spelling of `url` that this program stores: a local path with links resolved, or a URL.

    Args:
        url: a path or URL.

    >>> absolute("memory://folder/a.txt"), absolute("file:///data//x/../a.txt")
    ('memory:///folder/a.txt', '/data/a.txt')
    """
    fs, path = resolve(url)
    return normalise_url(fs, os.path.realpath(path) if is_local(fs) else path)


def normalise_url(fs: fsspec.AbstractFileSystem, path: str) -> str:
    """Return the absolute path (if local) or the URL of a path in a file system.

    Args:
        fs: the file system.
        path: a path in it.
    """
    return path if is_local(fs) else fs.unstrip_protocol(path)


def join(folder: str, *names: str) -> str:
    """Join a folder and names below it with forward slashes, which all stores accept.

    Args:
        folder: a path or URL.
        names: path components below it.
    """
    return "/".join([folder.rstrip("/"), *names])

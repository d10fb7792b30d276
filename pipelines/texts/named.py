"""The sources that may be read: those below folders named by the user.

An output names the sources of its documents itself. An output from somebody else could name any file of this machine,
or any URL, which would be requested with the user's credentials.
"""

import os
import re
from collections.abc import Iterable
from urllib.parse import unquote

from pipelines.errors import PipelineError
from pipelines.storage import absolute, resolve

_LOCAL = ("file", "local")
_UP = re.compile(r"(^|[/\\])\.{1,2}([/\\]|$)")


#: The first character of a pattern that is not taken literally.
_PATTERN = re.compile(r"[*?\[{]")


def root_of(pattern: str) -> str:
    """Return the folder or file that holds everything that a pattern of inputs can match.

    Args:
        pattern: path, URL or pattern.

    >>> root_of("lake/2024-*/*.jsonl"), root_of("s3://bucket/in/*.parquet"), root_of("lake/a.txt")
    ('lake', 's3://bucket/in', 'lake/a.txt')
    """
    special = _PATTERN.search(pattern)
    return pattern if special is None else pattern[: special.start()].rpartition("/")[0] or "."


class NamedFolders:
    """Folders and URLs named by the user, including everything below them.

    Args:
        folders: paths or URLs of folders or files.

    Raises:
        PipelineError: `url.unusable`.
    """

    def __init__(self, folders: Iterable[str]) -> None:
        self._local: list[str] = []
        self._stores: list[str] = []
        for folder in folders:
            spelled = absolute(folder).rstrip("/")
            if "://" in spelled and not spelled.startswith("/"):
                self._stores += {spelled, folder.rstrip("/")}
            else:
                self._local.append(spelled)

    def __bool__(self) -> bool:
        return bool(self._local or self._stores)

    def hold(self, source: str) -> bool:
        """Return whether a path or URL is one of the folders or below one. Does not connect to a store.

        Args:
            source: the path or URL.

        >>> NamedFolders(["/data"]).hold("/data2/a.txt"), NamedFolders(["s3://b/in"]).hold("s3://b/in/../x.txt")
        (False, False)
        """
        protocol, mark, rest = source.partition("://")
        if mark and not source.startswith("/") and protocol not in _LOCAL:
            # Compare as text, because resolving the URL would connect to some stores.
            return not _UP.search(unquote(rest)) and any(_below(source, folder) for folder in self._stores)
        try:
            path = os.path.realpath(resolve(source)[1])
        except (PipelineError, ValueError):  # ValueError: a NUL character in the path
            return False
        return any(_below(path, folder) for folder in self._local)


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")

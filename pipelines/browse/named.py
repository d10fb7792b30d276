"""Which sources of documents may be read: those below folders that whoever browses has named.

An output says itself where its documents came from. One that somebody else made could name any file of this machine, or
any URL, which would be asked for with the reader's credentials.
"""

import os
import re
from collections.abc import Iterable
from urllib.parse import unquote

from pipelines.errors import PipelineError
from pipelines.storage import absolute, resolve

_LOCAL = ("file", "local")
_UP = re.compile(r"(^|[/\\])\.{1,2}([/\\]|$)")


class NamedFolders:
    """Folders and URLs that were named, and what lies below them.

    Args:
        folders: paths or URLs of folders, or of files.

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
        """Tell whether a path or URL is one of them or below one. Connects to no store.

        >>> NamedFolders(["/data"]).hold("/data2/a.txt"), NamedFolders(["s3://b/in"]).hold("s3://b/in/../x.txt")
        (False, False)
        """
        protocol, mark, rest = source.partition("://")
        if mark and not source.startswith("/") and protocol not in _LOCAL:
            # As text: some stores are connected to when a URL is resolved.
            return not _UP.search(unquote(rest)) and any(_below(source, folder) for folder in self._stores)
        try:
            path = os.path.realpath(resolve(source)[1])
        except (PipelineError, ValueError):  # ValueError: a NUL character in the path
            return False
        return any(_below(path, folder) for folder in self._local)


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")

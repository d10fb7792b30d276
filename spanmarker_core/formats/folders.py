"""Names of files in folders that hold one file per document."""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from hashlib import blake2b
from pathlib import PurePosixPath
from typing import IO
from urllib.parse import quote, unquote

from spanmarker_core.data.blocks import uncompressed_name
from spanmarker_core.formats.options import Source

#: Opens a file of the output for writing, by its name, for a `with` statement.
Opener = Callable[[str], AbstractContextManager[IO[bytes]]]

_LONGEST = 200  # of the 255 bytes that file systems allow


class FileNames:
    """Names of files for the ids of documents, each used once.

    Characters other than letters, digits and ` ._-` of ASCII are percent-encoded, and a repeated id gets a number.

    >>> names = FileNames()
    >>> names.of("a/b"), names.of("a/b"), names.of(".hidden")
    ('a%2Fb', 'a%2Fb~2', '%2Ehidden')
    """

    def __init__(self) -> None:
        self._used: dict[bytes, int] = {}

    def of(self, document_id: str) -> str:
        """Return the name for the next document.

        Args:
            document_id: its id.
        """
        name = quote(document_id, safe=" ").replace("~", "%7E")
        name = re.sub(r"^[ ._-]|[ .]$", lambda match: f"%{ord(match[0]):02X}", name)
        if not name or len(name) > _LONGEST:
            digest = blake2b(document_id.encode(), digest_size=8).hexdigest()
            name = f"{name[: _LONGEST - 17] or 'document'}-{digest}"
        # Digests, because a corpus has many ids. Some file systems ignore case.
        key = blake2b(name.lower().encode(), digest_size=12).digest()
        self._used[key] = count = self._used.get(key, 0) + 1
        return name if count == 1 else f"{name}~{count}"


def document_id_of(source: Source) -> str:
    """Return the id of the document in a file: its decoded name without ending, or `source.name` if it has none.

    Args:
        source: the file.
    """
    stem = (
        PurePosixPath(uncompressed_name(source.path)[0])
        .stem.encode("utf-8", "surrogateescape")
        .decode("utf-8", "replace")
    )
    return unquote(stem) or source.name


def beside(path: str, ending: str) -> str:
    """Return the path of the file of the same document with another ending and the same compression.

    >>> beside("in/d1.ann", ".txt"), beside("in/d1.ann.gz", ".txt")
    ('in/d1.txt', 'in/d1.txt.gz')

    Args:
        path: path of a file.
        ending: the other ending.
    """
    folder, slash, name = path.rpartition("/")
    name, compression = uncompressed_name(name)
    return f"{folder}{slash}{PurePosixPath(name).stem}{ending}{compression and f'.{compression}'}"

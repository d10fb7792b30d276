"""Patterns of input files: their matches, in a defined order, and the file behind each name.

A local file may have several names: through links, and through spellings such as `in//a` and `x/../in/a`.
Links in a pattern's folder are resolved; below it names are kept as found, since they determine the format of a file
and the id of a text. `Match.real` identifies the file.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from fsspec.implementations.local import LocalFileSystem
from fsspec.utils import glob_translate

from pipelines.errors import PipelineError
from pipelines.storage import (
    Listed,
    in_bucket,
    listing,
    local_kind,
    normalise_url,
    resolve,
    translate_storage_errors,
    with_retries,
)

_MAGIC = re.compile(r"[*?\[]")
#: First characters of names that only a pattern with the same character matches.
_HIDDEN = (".", "_")
#: Ending of the empty objects by which Hadoop marks folders in a store.
_FOLDER_MARKER = "$folder$"


@dataclass(frozen=True, slots=True)
class Match:
    """A file or folder that matches a pattern.

    Attributes:
        path: an absolute path or a URL, as found below the pattern's folder.
        size: size in bytes.
        kind: "file", "directory" or "other" (a pipe, a socket, a device, a broken link).
        real: the same path with links resolved.
    """

    path: str
    size: int
    kind: str
    real: str


class Pattern:
    """A path or URL, optionally with wildcards; taken literally if a file of exactly that name exists.

    `*`, `?` and `[...]` match within one path component, `**` matches across folders, and names that begin with
    `.` or `_`, which mark hidden files and those that other programs keep beside their data, match only patterns that
    spell out that character. Names that end with `$folder$`, by which Hadoop marks folders, match no pattern. Links to
    folders are followed.

    Args:
        url: the path or URL.
        below: whether the pattern is everything below a folder, which `url` names without wildcards.

    Attributes:
        url: the pattern in its normalised spelling.
        folder: the folder before the first wildcard, or the folder of a plain file.
        literal: whether the pattern has no wildcards, or is taken literally.

    Raises:
        PipelineError: `url.unusable`.
        ValueError: an invalid pattern, such as `**.txt`.
    """

    def __init__(self, url: str, below: bool = False) -> None:
        self._fs, path = resolve(url)
        self._local = isinstance(self._fs, LocalFileSystem)
        magic = None if below else _MAGIC.search(path)
        with translate_storage_errors(url):
            self.literal = not below and (magic is None or with_retries(self._fs, lambda: self._fs.exists(path)))
        if below:
            path = f"{path}/**"
        cut = len(path) - 3 if below else path.rfind("/", 0, magic.start() if magic and not self.literal else len(path))
        base, rest = path[: max(cut, 0)], path[cut + 1 :]
        if self._local:
            base = os.path.realpath(base or "/").rstrip("/")
            rest = re.sub(r"/(\./|/)*", "/", rest)
        self._base = base
        self._path = f"{base}/{rest}" if cut >= 0 else rest
        self.url, self.folder = normalise_url(self._fs, self._path), normalise_url(self._fs, base)
        self._below = len(self._path) - len(rest)
        self._regex = None if self.literal else re.compile(glob_translate(rest))
        self._depth = None if "**" in rest else self._path.count("/")
        self._parts = rest.split("/")
        self._spelled = {part[:1] for part in self._parts} & set(_HIDDEN)

    def names(self, real: str) -> bool:
        """Return whether `find` yields this local file under its real name.

        Args:
            real: a local path with links resolved.
        """
        if self._regex is None:
            return real == self.url
        return real.startswith(f"{self._base}/") and self._matches(real)

    def _matches(self, path: str) -> bool:
        # The expression does not cover the folder, whose name may contain brackets.
        below = path[self._below :]
        return self._regex is not None and self._regex.match(below) is not None and self._shows(below.split("/"))

    def _shows(self, names: list[str]) -> bool:
        """Return whether the pattern spells out the first character of each hidden name of a match."""
        parts = self._parts
        if "**" in parts:  # It stands for any number of names, none of them hidden.
            before, after = parts.index("**"), parts[::-1].index("**")
            within = ["*"] * (len(names) - before - after)
            parts = [*parts[:before], *within, *parts[len(parts) - after :]]
        return all(name[:1] not in _HIDDEN or name[:1] == part[:1] for name, part in zip(names, parts, strict=False))

    def find(self) -> Iterator[Match]:
        """Yield the matches, sorted by path components; memory holds the listing of one folder per level.

        A folder is yielded if its name matches and nothing in it does.
        """
        with translate_storage_errors(self.url):
            if self._regex is not None:
                yield from self._walk(self._base, self._base, {self._base})
                return
            if self._local:
                if os.path.lexists(self._path):
                    kind, size = local_kind(self._path)
                    yield Match(self._path, size, kind, os.path.realpath(self._path))
                return
            try:
                info = with_retries(self._fs, lambda: self._fs.info(self._path))
            except FileNotFoundError:
                in_bucket(self._fs, self._base)  # Report a missing bucket as such, not as no match.
                return
            yield Match(self.url, info["size"] or 0, info["type"], self.url)

    def _walk(self, folder: str, real_folder: str, linked: set[str]) -> Iterator[Match]:
        for entry in listing(self._fs, folder):
            name = entry.path.rpartition("/")[2]
            if (name[:1] in _HIDDEN and name[:1] not in self._spelled) or name.endswith(_FOLDER_MARKER):
                continue
            real = self._real(entry, real_folder)
            empty = True
            if entry.kind == "directory" and (self._depth is None or entry.path.count("/") < self._depth):
                # `**` would follow a loop of links for ever; other patterns have a limited depth.
                if entry.is_link and self._depth is None:
                    if real in linked:
                        continue
                    linked.add(real)
                for found in self._walk(entry.path, real, linked):
                    empty = False
                    yield found
            if empty and self._matches(entry.path):
                yield Match(normalise_url(self._fs, entry.path), entry.size, entry.kind, real)

    def _real(self, entry: Listed, real_folder: str) -> str:
        if not self._local:
            return normalise_url(self._fs, entry.path)
        if entry.is_link:
            return os.path.realpath(entry.path)
        return f"{real_folder}/{entry.path.rpartition('/')[2]}"


def _sentence(error: Exception) -> str:
    text = str(error).rstrip(".")
    return f"{text[:1].upper()}{text[1:]}."


def patterns_of(urls: list[str]) -> list[Pattern]:
    """Return the patterns of paths or URLs, in order.

    Args:
        urls: paths or URLs, optionally with wildcards.

    Raises:
        PipelineError: `url.unusable`, `input.not_readable`, or `input.no_match` for an invalid pattern.
    """
    try:
        return [Pattern(url) for url in urls]
    except OSError as error:
        raise PipelineError("input.not_readable", path=", ".join(urls), reason=error) from error
    except ValueError as error:  # raised by fsspec for a pattern such as "**.txt"
        raise PipelineError("input.no_match", patterns=", ".join(urls), suggestion=f" {_sentence(error)}") from error

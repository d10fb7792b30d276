"""One rule for all options that write: no input is written to, and nothing is replaced that this program did not write.

Commands call it before they write or compute anything. An earlier output of the same command is told by how it begins;
an empty file, as `mktemp` makes one, may be replaced.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO

from pipelines.errors import PipelineError
from pipelines.storage import absolute, join, local_kind, open_input, resolve
from pipelines.storage.globs import Pattern
from pipelines.storage.urls import is_local
from spanmarker_core.bundle.reader import CARD, CARD_FACTS, CONFIG, DIGESTS, GATE_CURVE, TOKENIZER, WEIGHTS

#: Tells by the content of a file whether this program wrote it.
Ours = Callable[[IO[bytes]], bool]

#: Files that `datasets` puts into a folder of data, which is an input as a whole.
_DATASET_FILES = ("state.json", "dataset_info.json", "dataset_dict.json")
#: Bytes of a file that `begins` looks at.
_HEAD = 1 << 16


def begins(start: bytes, *more: bytes) -> Ours:
    """Return what tells a file of ours by its first bytes.

    Args:
        start: the file's first bytes.
        more: what is to be found in the bytes after them.
    """

    def ours(file: IO[bytes]) -> bool:
        head = file.read(_HEAD)
        return head.startswith(start) and all(part in head for part in more)

    return ours


def never(file: IO[bytes]) -> bool:
    """Tell of no file that this program wrote it."""
    return False


def refuse_overwrite(
    option: str, path: str, inputs: Iterable[str] = (), ours: Ours = never, *, appends: bool = False
) -> None:
    """Refuse a file that must not be written.

    Args:
        option: what named the file, for the error.
        path: a path or URL.
        inputs: paths, URLs and patterns of what the command reads, files and folders.
        ours: tells whether a file that is there is an earlier output of this option.
        appends: whether a pipe or device may be written to, which nothing can then replace.

    Raises:
        PipelineError: `output.is_input`, `output.would_replace`, `output.not_readable`, `url.unusable`.
    """
    _refuse(option, path, _Inputs(inputs), ours, appends)


def _refuse(option: str, path: str, inputs: "_Inputs", ours: Ours, appends: bool = False) -> None:
    inputs.refuse(option, path)
    url = absolute(path)
    kind = local_kind(url)[0] if is_local(resolve(url)[0]) and os.path.lexists(url) else "file"
    if kind == "directory" or (kind == "other" and appends):
        return  # Whatever writes there says that it is a folder.
    if kind == "other" or not _may_be_replaced(url, ours):
        raise PipelineError("output.would_replace", option=option, path=path)


def refuse_overwrites(option: str, folder: str, files: Mapping[str, Ours], inputs: Iterable[str] = ()) -> None:
    """Refuse a folder in which one of these files must not be written.

    Args:
        option, inputs: as in `refuse_overwrite`.
        folder: a path or URL.
        files: name below the folder -> what tells whether such a file is an earlier output.

    Raises:
        PipelineError: as `refuse_overwrite`.
    """
    known = _Inputs(inputs)
    for name, ours in files.items():
        _refuse(option, join(folder, name), known, ours)


def refuse_bundle(option: str, folder: str, inputs: Iterable[str]) -> None:
    """Refuse a folder of a new bundle that lies among the inputs. What it holds already is `saving.check_output`'s.

    Args:
        option, inputs: as in `refuse_overwrite`.
        folder: a path.

    Raises:
        PipelineError: `output.is_input`, `url.unusable`.
    """
    refuse_inputs(option, folder, (CONFIG, WEIGHTS, TOKENIZER, DIGESTS, CARD, CARD_FACTS, GATE_CURVE), inputs)


def refuse_inputs(option: str, folder: str, names: Iterable[str], inputs: Iterable[str]) -> None:
    """Refuse a folder in which a file is an input, matches a pattern of inputs or lies in a folder that is one.

    Args:
        option, inputs: as in `refuse_overwrite`.
        folder: a path or URL.
        names: of files below it that will be written.

    Raises:
        PipelineError: `output.is_input`, `url.unusable`.
    """
    known = _Inputs(inputs)
    for name in names:
        known.refuse(option, join(folder, name))


class _Inputs:
    """What a command reads, by name; a pattern in a store is asked for once, and only where something is written."""

    def __init__(self, named: Iterable[str]) -> None:
        self._named = list(named)
        self._patterns: dict[str, Pattern | None] = {}

    def refuse(self, option: str, path: str) -> None:
        """Raise `output.is_input` if a file is one of them."""
        fs, _ = resolve(path)
        for named in self._named:
            pattern = self._pattern(named, type(fs))
            if pattern is not None and _is_input(path, pattern):
                raise PipelineError("output.is_input", option=option, path=path, input=named)

    def _pattern(self, named: str, kind: type) -> Pattern | None:
        """Return the pattern that a name is; None if it is in another kind of store, or can't be used."""
        try:
            if type(resolve(named)[0]) is not kind or "\0" in named:
                return None
            if named not in self._patterns:
                self._patterns[named] = Pattern(named)
        except (PipelineError, OSError, ValueError):
            self._patterns[named] = None  # What it is, whoever reads it will say.
        return self._patterns[named]


def _may_be_replaced(url: str, ours: Ours) -> bool:
    """Tell whether there is no file at `url`, an empty one or one of ours."""
    try:
        with open_input(url) as file:
            if not file.read(1):
                return True
            file.seek(0)
            return ours(file)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError as error:
        raise PipelineError("output.not_readable", path=url, reason=error) from error


def _is_input(path: str, pattern: Pattern) -> bool:
    fs, target = resolve(path)
    if not is_local(fs):
        url = absolute(path)
        return pattern.names(url if pattern.literal else target) or _lies_in(url, pattern)
    spellings = list(_spellings(target))
    if any(pattern.names(each) or _lies_in(each, pattern) for each in spellings):
        return True
    return os.path.exists(target) and _is_a_name_of(target, pattern)


def _spellings(path: str) -> Iterator[str]:
    """Yield a local path with its first folders without links, and the others as they are written.

    Patterns are matched so: the folder before the wildcards is real, and links below it are followed.
    """
    path = os.path.normpath(path)
    cuts = [place for place, character in enumerate(path) if character == "/"]
    yield os.path.realpath(path)
    for cut in cuts:
        yield os.path.realpath(path[:cut] or "/").rstrip("/") + path[cut:]


def _lies_in(path: str, pattern: Pattern) -> bool:
    """Tell whether a file would be in a folder that is an input as a whole: one that is named, or one of `datasets`."""
    if pattern.literal:
        return path.startswith(pattern.url.rstrip("/") + "/") or _in_folder(path, pattern.url)
    folders = (path[:place] for place, character in enumerate(path) if character == "/" and place)
    return any(pattern.names(each) and any(map(os.path.exists, _dataset_files(each))) for each in folders)


def _in_folder(path: str, folder: str) -> bool:
    return folder.startswith("/") and path.startswith(os.path.realpath(folder).rstrip("/") + "/")


def _dataset_files(folder: str) -> list[str]:
    return [os.path.join(folder, name) for name in _DATASET_FILES]


def _is_a_name_of(path: str, pattern: Pattern) -> bool:
    """Tell whether a local file that is there is also known by a name that the pattern finds."""
    found = os.stat(path)
    if not pattern.literal and found.st_nlink == 1 and found.st_size:
        # It may still be what a link in the pattern's folders leads to. They may be large, and only what is ours or
        # empty is replaced.
        return False
    with contextlib.suppress(PipelineError, OSError):
        for each in pattern.find():
            with contextlib.suppress(OSError):
                if os.path.samestat(os.stat(each.path), found):
                    return True
    return False

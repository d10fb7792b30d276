"""Protection of existing files: no option writes to an input or replaces a file that this program did not write.

Commands check this before they compute or write anything. An earlier output of the same command is recognised by its
first bytes; an empty file, such as one made by `mktemp`, may be replaced.
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

#: Returns whether this program wrote a file, judging by its content.
Ours = Callable[[IO[bytes]], bool]

#: Files that `datasets` writes into a folder of data; the whole folder is an input.
_DATASET_FILES = ("state.json", "dataset_info.json", "dataset_dict.json")
#: Bytes of a file that `begins` examines.
_HEAD = 1 << 16


def begins(start: bytes, *more: bytes) -> Ours:
    """Return a function that recognises a file by its first bytes.

    Args:
        start: the file's first bytes.
        more: byte strings that must occur in the file's first 64 KiB.
    """

    def ours(file: IO[bytes]) -> bool:
        head = file.read(_HEAD)
        return head.startswith(start) and all(part in head for part in more)

    return ours


def never(file: IO[bytes]) -> bool:
    """Return False: no existing file is recognised as an earlier output.

    Args:
        file: an open file; it is not read.
    """
    return False


def refuse_overwrite(
    option: str, path: str, inputs: Iterable[str] = (), ours: Ours = never, *, appends: bool = False
) -> None:
    """Raise an error if a file must not be written.

    Args:
        option: the option that names the file, for the error.
        path: path or URL of the file.
        inputs: paths, URLs and patterns of the files and folders that the command reads.
        ours: returns whether an existing file is an earlier output of this option.
        appends: whether the path may be a pipe or a device, which writing then does not replace.

    Raises:
        PipelineError: `output.is_input`, `output.would_replace`, `output.not_readable`, `url.unusable`.
    """
    _refuse(option, path, _Inputs(inputs), ours, appends)


def _refuse(option: str, path: str, inputs: "_Inputs", ours: Ours, appends: bool = False) -> None:
    inputs.refuse(option, path)
    url = absolute(path)
    kind = local_kind(url)[0] if is_local(resolve(url)[0]) and os.path.lexists(url) else "file"
    if kind == "directory" or (kind == "other" and appends):
        return  # Writing there reports that it is a folder.
    if kind == "other" or not _may_be_replaced(url, ours):
        raise PipelineError("output.would_replace", option=option, path=path)


def refuse_overwrites(option: str, folder: str, files: Mapping[str, Ours], inputs: Iterable[str] = ()) -> None:
    """Raise an error if one of several files in a folder must not be written.

    Args:
        option: the option that names the folder, for the error.
        folder: a path or URL.
        files: name below the folder -> function that returns whether an existing file is an earlier output.
        inputs: paths, URLs and patterns of the files and folders that the command reads.

    Raises:
        PipelineError: `output.is_input`, `output.would_replace`, `output.not_readable`, `url.unusable`.
    """
    known = _Inputs(inputs)
    for name, ours in files.items():
        _refuse(option, join(folder, name), known, ours)


def refuse_bundle(option: str, folder: str, inputs: Iterable[str]) -> None:
    """Raise an error if the folder of a new bundle is among the inputs.

    `spanmarker_core.bundle.writer.check_output` checks the folder's existing contents.

    Args:
        option: the option that names the folder, for the error.
        folder: a path.
        inputs: paths, URLs and patterns of the files and folders that the command reads.

    Raises:
        PipelineError: `output.is_input`, `url.unusable`.
    """
    refuse_inputs(option, folder, (CONFIG, WEIGHTS, TOKENIZER, DIGESTS, CARD, CARD_FACTS, GATE_CURVE), inputs)


def refuse_inputs(option: str, folder: str, names: Iterable[str], inputs: Iterable[str]) -> None:
    """Raise an error if a file to be written is an input.

    A file is also an input if it matches a pattern of inputs or is in a folder that is an input.

    Args:
        option: the option that names the folder, for the error.
        folder: a path or URL.
        names: names below the folder of the files to be written.
        inputs: paths, URLs and patterns of the files and folders that the command reads.

    Raises:
        PipelineError: `output.is_input`, `url.unusable`.
    """
    known = _Inputs(inputs)
    for name in names:
        known.refuse(option, join(folder, name))


class _Inputs:
    """The inputs of a command, by name.

    A pattern is looked up in a store once, and only if the command writes to that store.
    """

    def __init__(self, named: Iterable[str]) -> None:
        self._named = list(named)
        self._patterns: dict[str, Pattern | None] = {}

    def refuse(self, option: str, path: str) -> None:
        """Raise `output.is_input` if a file is one of the inputs."""
        fs, _ = resolve(path)
        for named in self._named:
            pattern = self._pattern(named, type(fs))
            if pattern is not None and _is_input(path, pattern):
                raise PipelineError("output.is_input", option=option, path=path, input=named)

    def _pattern(self, named: str, kind: type) -> Pattern | None:
        """Return the pattern of a name; None if it is invalid or in another kind of store."""
        try:
            if type(resolve(named)[0]) is not kind or "\0" in named:
                return None
            if named not in self._patterns:
                self._patterns[named] = Pattern(named)
        except (PipelineError, OSError, ValueError):
            self._patterns[named] = None  # The reader of the input reports the error.
        return self._patterns[named]


def _may_be_replaced(url: str, ours: Ours) -> bool:
    """Return whether the file at `url` is missing, empty or an earlier output."""
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
    """Yield spellings of a local path: links are resolved in the first folders, the others stay as written.

    This is how patterns match: links are resolved in the folder before the wildcards and followed below it.
    """
    path = os.path.normpath(path)
    cuts = [index for index, character in enumerate(path) if character == "/"]
    yield os.path.realpath(path)
    for cut in cuts:
        yield os.path.realpath(path[:cut] or "/").rstrip("/") + path[cut:]


def _lies_in(path: str, pattern: Pattern) -> bool:
    """Return whether a file is in a folder that is an input as a whole: a named one, or one saved by `datasets`."""
    if pattern.literal:
        return path.startswith(pattern.url.rstrip("/") + "/") or _in_folder(path, pattern.url)
    folders = (path[:index] for index, character in enumerate(path) if character == "/" and index)
    return any(pattern.names(each) and any(map(os.path.exists, _dataset_files(each))) for each in folders)


def _in_folder(path: str, folder: str) -> bool:
    return folder.startswith("/") and path.startswith(os.path.realpath(folder).rstrip("/") + "/")


def _dataset_files(folder: str) -> list[str]:
    return [os.path.join(folder, name) for name in _DATASET_FILES]


def _is_a_name_of(path: str, pattern: Pattern) -> bool:
    """Return whether a local file that exists also has a name that the pattern finds."""
    found = os.stat(path)
    if not pattern.literal and found.st_nlink == 1 and found.st_size:
        # A link in the pattern's folders may still lead to it. The folders may be too large to search, and only
        # earlier outputs and empty files are replaced anyway.
        return False
    with contextlib.suppress(PipelineError, OSError):
        for each in pattern.find():
            with contextlib.suppress(OSError):
                if os.path.samestat(os.stat(each.path), found):
                    return True
    return False

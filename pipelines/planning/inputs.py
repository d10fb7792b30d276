"""Inputs of a job: the files that match its patterns, and the errors for inputs that can not be used."""

import heapq
import itertools
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from pipelines.errors import PipelineError
from pipelines.planning.standard_input import is_spooled
from pipelines.storage.globs import Match, Pattern
from pipelines.task import Columns
from spanmarker_core.data.nearby import suggest_file

#: Files named in an error message; the others are counted.
_SHOWN = 10

Faults = dict[str, list[str]]  # inputs by error code


def refuse_nothing(patterns: Iterable[Pattern], folders: list[str]) -> None:
    """Raise an error because no input was found.

    Args:
        patterns: the patterns of the inputs.
        folders: folders that they match.

    Raises:
        PipelineError: `input.only_folders` if they match any folder, otherwise `input.no_match`.
    """
    urls = [pattern.url for pattern in patterns]
    if folders:
        more = f" and {len(folders) - _SHOWN} more" if len(folders) > _SHOWN else ""
        found = ", ".join(folders[:_SHOWN]) + more
        raise PipelineError("input.only_folders", patterns=", ".join(urls), folders=found, example=f"{urls[0]}/**")
    raise PipelineError("input.no_match", patterns=", ".join(urls), suggestion=suggest_file(urls[0]))


def refuse(faults: Faults, endings: Iterable[str], columns: Columns) -> None:
    """Raise the first kind of fault found, with all inputs that have it.

    Args:
        faults: inputs by error code, in the order of the checks.
        endings: file name endings of the known formats, for the message.
        columns: columns or keys of ids and texts, for the message.

    Raises:
        PipelineError: the first code of `faults` that has inputs.
    """
    for code, faulty in faults.items():
        if faulty:
            shown = [f"  {file}" for file in faulty[:_SHOWN]]
            more = [f"  and {len(faulty) - _SHOWN} more"] if len(faulty) > _SHOWN else []
            raise PipelineError(
                code,
                files="\n".join(shown + more),
                endings=" ".join(endings),
                id_column=columns.id,
                ids=f"ids, where there are any, from {columns.id!r}"
                if columns.make_ids
                else f"ids from {columns.id!r}",
                text_column=columns.text,
            )


class BadColumns(Exception):
    """A file's columns are missing or of the wrong type; the message gives the reason."""


class Input(NamedTuple):
    """A file that is an input, or a folder that is one as a whole.

    Attributes:
        path: an absolute path or a URL.
        size: its size in bytes.
        kind: its format as named; None if that is unknown.
        folder: the folder to which the id of a text file is relative; "" for other formats.
        problem: why the file can't be read; empty for all others.
    """

    path: str
    size: int
    kind: str | None
    folder: str
    problem: str


def input_files(
    patterns: list[Pattern],
    inside: str,
    empty: list[str],
    folders: list[str],
    kind_of: Callable[[str], str | None],
    endings: Collection[str],
    is_input: Callable[[str], bool],
) -> Iterator[Input]:
    """Yield the inputs, sorted by path, each file once.

    A folder stands for all files of known formats below it, if it is named or has the name of a file, as Spark's have.
    Other folders that `*` matches are ignored, as shell users expect.

    Args:
        patterns: the patterns of the inputs; those of folders are added.
        inside: the output folder, with a slash at its end.
        empty: list to which named folders without files of a known format are added.
        folders: list to which folders that wildcards match, and that are ignored, are added.
        kind_of: returns the format of a file, or None.
        endings: file name endings of the known formats.
        is_input: returns whether a folder is an input as a whole.

    Raises:
        PipelineError: `input.inside_output`, `input.not_readable`.
    """

    def listed(pattern: Pattern) -> Iterator[tuple[list[str], str, Match]]:
        try:
            for found in pattern.find():
                if found.kind != "directory" or is_input(found.path):
                    yield found.path.split("/"), _text_folder(found, pattern, kind_of), found
                elif pattern.literal or found.path.lower().endswith(tuple(endings)):
                    below = Pattern(found.path, below=True)
                    patterns.append(below)
                    count = 0
                    for each in below.find():
                        if each.kind != "directory" and kind_of(each.path):
                            count += 1
                            yield each.path.split("/"), _text_folder(each, below, kind_of), each
                    if not count and pattern.literal:
                        empty.append(found.path)
                else:
                    folders.append(found.path)
        except OSError as error:
            raise PipelineError("input.not_readable", path=error.filename or pattern.url, reason=error) from error

    linked: set[str] = set()
    merged = heapq.merge(*[listed(pattern) for pattern in patterns], key=lambda match: match[:2])
    for _, same in itertools.groupby(merged, key=lambda match: match[2].path):
        _, folder, found = next(same)
        path = found.path
        spooled = is_spooled(path, inside)
        if (f"{found.real}/".startswith(inside) or path.startswith(inside)) and not spooled:
            raise PipelineError("input.inside_output", path=path, output=inside)
        if found.real != path and found.kind != "other":
            # A file counts under its real name if a pattern matches that, otherwise under the first name found. Only
            # links to files outside the patterns are therefore remembered.
            if found.real in linked or any(pattern.names(found.real) for pattern in patterns):
                continue
            linked.add(found.real)
        problem = _problem(found)
        yield Input(path, found.size, kind_of(path), "" if problem else folder, problem)


def _text_folder(found: Match, pattern: Pattern, kind_of: Callable[[str], str | None]) -> str:
    """Return the folder to which the id of a text file is relative; "" for other files."""
    text = found.kind == "file" and (kind_of(found.path) or "").partition(".")[0] == "text"
    return pattern.folder if text else ""


def _problem(found: Match) -> str:
    """Return why a match can't be read; nothing if it can, as far as is known without opening it."""
    if found.kind == "other":
        broken = os.path.islink(found.path) and not os.path.exists(found.path)
        return "a broken link" if broken else "a pipe, a socket or a device"
    if found.path.startswith("/") and not os.access(found.path, os.R_OK):
        return "this user has no permission to read it"
    return ""

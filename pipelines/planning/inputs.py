"""Inputs of a job: the files that match its patterns, and the errors for inputs that can not be used."""

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping

from pipelines.errors import PipelineError
from pipelines.storage.globs import Match, Pattern
from pipelines.task import Columns

#: File name ending -> format of a shard.
FORMATS = {
    ".parquet": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".jsonl.gz": "jsonl.gz",
    ".jsonl.zst": "jsonl.zst",
    ".txt": "text",
    ".md": "text",
}

#: Files named in an error message; the others are counted.
_SHOWN = 10

Faults = dict[str, list[str]]  # inputs by error code


def refuse_nothing(patterns: Iterable[Pattern], faults: Faults) -> None:
    """Raise an error because no input was found, unless there were matches that are not files.

    Args:
        patterns: the patterns of the inputs.
        faults: inputs by error code.

    Raises:
        PipelineError: `input.no_match`.
    """
    if not faults["input.not_a_file"]:
        raise PipelineError("input.no_match", patterns=", ".join(pattern.url for pattern in patterns))


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
                text_column=columns.text,
            )


def format_of(path: str) -> str | None:
    """Return the format that the name of a file of documents indicates, or None.

    Args:
        path: a path or URL.

    >>> format_of("a/b.jsonl.gz"), format_of("a/b.doc")
    ('jsonl.gz', None)
    """
    return kind_of(path, FORMATS)


def kind_of(path: str, endings: Mapping[str, str]) -> str | None:
    """Return the kind that a file's name indicates, or None.

    Args:
        path: a path or URL.
        endings: file name ending -> kind.
    """
    return next((kind for ending, kind in endings.items() if path.lower().endswith(ending)), None)


class BadColumns(Exception):
    """A file's columns are missing or of the wrong type; the message gives the reason."""


def input_files(
    patterns: list[Pattern],
    inside: str,
    no_files: list[str],
    endings: Mapping[str, str],
    is_input: Callable[[str], bool],
) -> Iterator[tuple[str, int, str | None]]:
    """Yield (path, size, base folder of a text file's id or None) of the inputs, sorted by path, each file once.

    Args:
        patterns: the patterns of the inputs.
        inside: the output folder, with a slash at its end.
        no_files: list to which matches that are not files are added.
        endings: file name ending -> kind of the file.
        is_input: returns whether a folder is an input as a whole.

    Raises:
        PipelineError: `input.inside_output`, `input.not_readable`.
    """

    def listed(pattern: Pattern) -> Iterator[tuple[list[str], str, Match]]:
        try:
            for found in pattern.find():
                # Folders that `*` matches are ignored, as shell users expect. A folder that is named explicitly, or has
                # the name of a file, is a mistake or the output of Spark.
                named = pattern.literal or kind_of(found.path, endings) is not None
                if found.kind != "directory" or named or is_input(found.path):
                    text = found.kind == "file" and kind_of(found.path, endings) == "text"
                    yield found.path.split("/"), pattern.folder if text else "", found
        except OSError as error:
            raise PipelineError("input.not_readable", path=error.filename or pattern.url, reason=error) from error

    linked: set[str] = set()
    merged = heapq.merge(*map(listed, patterns), key=lambda match: match[:2])
    for _, same in itertools.groupby(merged, key=lambda match: match[2].path):
        _, folder, found = next(same)
        if f"{found.real}/".startswith(inside) or found.path.startswith(inside):
            raise PipelineError("input.inside_output", path=found.path, output=inside)
        if found.kind != "file" and not (found.kind == "directory" and is_input(found.path)):
            what = "a folder" if found.kind == "directory" else "a pipe, a socket, a device or a broken link"
            no_files.append(f"{found.path} ({what})")
            continue
        if found.real != found.path:
            # A file counts under its real name if a pattern matches that, otherwise under the first name found. Only
            # links to files outside the patterns are therefore remembered.
            if found.real in linked or any(pattern.names(found.real) for pattern in patterns):
                continue
            linked.add(found.real)
        yield found.path, found.size, folder or None

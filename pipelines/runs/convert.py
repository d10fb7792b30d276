"""Driver of `spanmarker convert`: reads annotated documents in one format and writes them in another."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import IO, BinaryIO

from pipelines.errors import PipelineError
from pipelines.output.new_files import NewFiles
from pipelines.output.overwrite import refuse_inputs, refuse_overwrite
from pipelines.stages.read_annotated import is_dataset
from pipelines.storage import exists, listing, open_input, publish, resolve
from pipelines.storage.globs import Match, Pattern, patterns_of
from pipelines.storage.outputs import writing
from spanmarker_core.data.blocks import damage_as_errors, opened, uncompressed_name
from spanmarker_core.data.nearby import suggest_file
from spanmarker_core.formats.detect import format_of, is_companion
from spanmarker_core.formats.document import AnnotatedDocument
from spanmarker_core.formats.flatten import Kept
from spanmarker_core.formats.options import ReadOptions, Source, WriteOptions
from spanmarker_core.formats.registry import FORMATS, Format, format_called, read_documents, write_documents
from spanmarker_core.progress import SILENT, Progress
from spanmarker_core.text.counted import counted


def convert(
    inputs: list[str],
    output: str,
    to: str,
    read: ReadOptions,
    write: WriteOptions,
    source_format: str | None = None,
    progress: Progress = SILENT,
) -> Kept:
    """Convert annotated documents, as a stream.

    Args:
        inputs: files, folders and patterns, local or URLs.
        output: file to write, or folder for formats of several files.
        to: name of the format to write.
        read: options of the readers.
        write: options of the writer.
        source_format: name of the format to read; None to recognise that of each file.
        progress: receives the bytes of the files that are read.

    Returns:
        What was written and what was left out.

    Raises:
        PipelineError: `input.no_match`, `input.not_readable`, `output.*`.
        CoreError: `call.unknown_option`, `format.*`, `data.*`.
    """
    target = format_called(to, written=True)
    if source_format is not None:
        format_called(source_format)
    reading = _Reading(progress)
    documents = _documents(inputs, source_format, read, reading)
    with progress.phase("looking for inputs"):
        total = _size(inputs)
    with progress.phase("converting", total, "bytes"):
        kept = _written(documents, inputs, output, target, write)
    kept.left_out.update(read.left_out)
    return kept


def _written(
    documents: Iterator[AnnotatedDocument], inputs: list[str], output: str, target: Format, write: WriteOptions
) -> Kept:
    if not target.folder:
        refuse_overwrite("--output", output, inputs)
        with publish(output) as file, writing(output):
            return write_documents(documents, target.name, file, write)
    refuse_inputs("--output", output, ("x",), inputs)
    fs, path = resolve(output)
    if next(listing(fs, path), None) is not None:
        raise PipelineError("output.would_replace", option="--output", path=output)
    files = NewFiles(output)
    with files.all_or_none():
        return write_documents(documents, target.name, files.opened, write)


def _size(inputs: list[str]) -> int | None:
    """Return the size of all inputs in bytes; None if they cannot be listed, which reading them reports."""
    try:
        return sum(match.size for pattern in patterns_of(inputs) for match, _ in _matches(pattern))
    except OSError:
        return None


class _Reading:
    """Tells how far the files are read, by the position in the one that was opened last."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._file: IO[bytes] | None = None
        self._position = self._documents = 0

    def open(self, path: str) -> BinaryIO:
        self._file = stored = open_input(path)
        self._position = 0
        return opened(stored, path)

    def read_one(self) -> None:
        self._documents += 1
        position = self._position
        if self._file is not None and not self._file.closed:
            self._position = self._file.tell()
        self._progress.advance(max(self._position - position, 0), counted(self._documents, "document"))

    def read_all(self, n_bytes: int) -> None:
        self._progress.advance(max(n_bytes - self._position, 0))
        self._position = 0


def _documents(
    inputs: list[str], source_format: str | None, options: ReadOptions, reading: _Reading
) -> Iterator[AnnotatedDocument]:
    found, path = False, ", ".join(inputs)
    try:
        for source, name, n_bytes in _sources(inputs, source_format, options, reading):
            found, path = True, source.path
            with damage_as_errors(path):
                for document in read_documents(source, name, options):
                    reading.read_one()
                    yield document
            reading.read_all(n_bytes)
    except OSError as error:  # only of reading: errors of writing are not raised here
        raise PipelineError("input.not_readable", path=error.filename or path, reason=error) from error
    if not found:
        raise PipelineError("input.no_match", patterns=", ".join(inputs), suggestion=suggest_file(inputs[0]))


def _sources(
    inputs: list[str], source_format: str | None, options: ReadOptions, reading: _Reading
) -> Iterator[tuple[Source, str, int]]:
    """Yield each input with its format and its size in bytes.

    The files of a folder or pattern are those with an ending of their format.
    """
    seen: set[str] = set()
    names: Counter[str] = Counter()

    def source_of(path: str, folder: str) -> Source:
        name = _name(path, folder)
        names[name] += 1  # those of several inputs may be equal, and ids begin with them
        return Source(path, reading.open, name if names[name] == 1 else f"{name}~{names[name]}")

    for pattern in patterns_of(inputs):
        for match, folder in _matches(pattern):
            if match.real in seen:
                continue
            seen.add(match.real)
            if match.kind == "directory":
                yield source_of(match.path, folder), "datasets", match.size
                continue
            in_folder = folder != pattern.folder
            if (in_folder or not pattern.literal) and not _fits(match.path, source_format, in_folder):
                continue
            source = source_of(match.path, folder)
            with damage_as_errors(match.path):
                yield source, source_format or format_of(source, options), match.size


def _matches(pattern: Pattern) -> Iterable[tuple[Match, str]]:
    """Yield the files of a pattern, those in folders that it names, and folders saved by `datasets`."""
    for match in pattern.find():
        if match.kind != "directory" or is_dataset(match.path):
            yield match, pattern.folder
        else:
            inside = Pattern(match.path, below=True)
            yield from ((each, match.path.rstrip("/")) for each in inside.find() if each.kind == "file")


def _fits(path: str, source_format: str | None, in_folder: bool) -> bool:
    """Return whether a listed file is an input: it has an ending of the format, and doesn't belong to another file.

    If the user gave a pattern and the format, any name will do.
    """
    if source_format is not None and not in_folder and not FORMATS[source_format].one_file_per_document:
        return True
    name = uncompressed_name(path.rpartition("/")[2])[0].lower()
    formats = FORMATS.values() if source_format is None else [FORMATS[source_format]]
    if name.startswith(("_", ".")) or not any(name.endswith(each.endings) for each in formats):
        return False
    return source_format is not None or not is_companion(path, exists)


def _name(path: str, folder: str) -> str:
    """Return the beginning of the ids that are made for documents of a file: its path in the folder, without ending."""
    name = uncompressed_name(path.removeprefix(folder.rstrip("/") + "/"))[0]
    for ending in (ending for each in FORMATS.values() for ending in each.endings):
        name = name.removesuffix(ending)
    return name

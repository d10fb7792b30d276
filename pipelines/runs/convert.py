"""Driver of `spanmarker convert`: reads annotated documents in one format and writes them in another."""

from collections import Counter
from collections.abc import Iterable, Iterator

from pipelines.errors import PipelineError
from pipelines.output.new_files import NewFiles
from pipelines.output.overwrite import refuse_inputs, refuse_overwrite
from pipelines.stages.read_annotated import is_dataset, open_content
from pipelines.storage import exists, listing, publish, resolve
from pipelines.storage.globs import Match, Pattern, patterns_of
from pipelines.storage.outputs import writing
from spanmarker_core.data.blocks import damage_as_errors, uncompressed_name
from spanmarker_core.data.nearby import suggest_file
from spanmarker_core.formats.detect import format_of, is_companion
from spanmarker_core.formats.document import AnnotatedDocument
from spanmarker_core.formats.flatten import Kept
from spanmarker_core.formats.options import ReadOptions, Source, WriteOptions
from spanmarker_core.formats.registry import FORMATS, format_called, read_documents, write_documents


def convert(
    inputs: list[str],
    output: str,
    to: str,
    read: ReadOptions,
    write: WriteOptions,
    source_format: str | None = None,
) -> Kept:
    """Convert annotated documents, as a stream.

    Args:
        inputs: files, folders and patterns, local or URLs.
        output: file to write, or folder for formats of several files.
        to: name of the format to write.
        read: options of the readers.
        write: options of the writer.
        source_format: name of the format to read; None to recognise that of each file.

    Returns:
        What was written and what was left out.

    Raises:
        PipelineError: `input.no_match`, `input.not_readable`, `output.*`.
        CoreError: `call.unknown_option`, `format.*`, `data.*`.
    """
    target = format_called(to, written=True)
    if source_format is not None:
        format_called(source_format)
    documents = _documents(inputs, source_format, read)
    if not target.folder:
        refuse_overwrite("--output", output, inputs)
        with publish(output) as file, writing(output):
            kept = write_documents(documents, to, file, write)
    else:
        refuse_inputs("--output", output, ("x",), inputs)
        fs, path = resolve(output)
        if next(listing(fs, path), None) is not None:
            raise PipelineError("output.would_replace", option="--output", path=output)
        files = NewFiles(output)
        with files.all_or_none():
            kept = write_documents(documents, to, files.opened, write)
    kept.left_out.update(read.left_out)
    return kept


def _documents(inputs: list[str], source_format: str | None, options: ReadOptions) -> Iterator[AnnotatedDocument]:
    found, path = False, ", ".join(inputs)
    try:
        for source, name in _sources(inputs, source_format, options):
            found, path = True, source.path
            with damage_as_errors(path):
                yield from read_documents(source, name, options)
    except OSError as error:  # only of reading: errors of writing are not raised here
        raise PipelineError("input.not_readable", path=error.filename or path, reason=error) from error
    if not found:
        raise PipelineError("input.no_match", patterns=", ".join(inputs), suggestion=suggest_file(inputs[0]))


def _sources(inputs: list[str], source_format: str | None, options: ReadOptions) -> Iterator[tuple[Source, str]]:
    """Yield each input with its format. The files of a folder or pattern are those with an ending of their format."""
    seen: set[str] = set()
    names: Counter[str] = Counter()

    def source_of(path: str, folder: str) -> Source:
        name = _name(path, folder)
        names[name] += 1  # those of several inputs may be equal, and ids begin with them
        return Source(path, open_content, name if names[name] == 1 else f"{name}~{names[name]}")

    for pattern in patterns_of(inputs):
        for match, folder in _matches(pattern):
            if match.real in seen:
                continue
            seen.add(match.real)
            if match.kind == "directory":
                yield source_of(match.path, folder), "datasets"
                continue
            in_folder = folder != pattern.folder
            if (in_folder or not pattern.literal) and not _fits(match.path, source_format, in_folder):
                continue
            source = source_of(match.path, folder)
            with damage_as_errors(match.path):
                yield source, source_format or format_of(source, options)


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

r"""brat's standoff: a text in `NAME.txt` and its entities in `NAME.ann`.

    T1\tPER 0 3\tAda
    T2\tLOC 8 16;17 21\tNew York City

A range that continues in the next line is one entity, although brat writes it in parts. Other
entities of several parts are refused or left out. Lines that are not entities (relations, events, notes) are ignored.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from spanmarker_core.data.lines import numbered_lines
from spanmarker_core.data.nearby import suggest_file
from spanmarker_core.data.records import BadRecord, RecordProblem
from spanmarker_core.errors import CoreError
from spanmarker_core.formats.document import AnnotatedDocument, checked_document
from spanmarker_core.formats.flatten import shown
from spanmarker_core.formats.folders import FileNames, Opener, beside, document_id_of
from spanmarker_core.formats.options import ReadOptions, Source, WriteOptions

_ENTITY = re.compile(r"T\S*\t(\S+) ([0-9]{1,18} [0-9]{1,18}(?:;[0-9]{1,18} [0-9]{1,18})*)(?:\t.*)?", re.DOTALL)


#: File that lists the labels for brat.
CONFIGURATION = "annotation.conf"
DISCONTINUOUS_REMEDY = "To leave such entities out, convert the data: spanmarker convert --flatten longest"


def read_brat(source: Source, options: ReadOptions) -> Iterator[AnnotatedDocument | BadRecord]:
    """Read one document.

    Args:
        source: its `.ann` or `.txt` file; the other one is beside it.
        options: options of the reader.

    Raises:
        CoreError: `data.not_found`, `data.bad_record`.
    """
    text = read_text(source, beside(source.path, ".txt"))
    entities = []
    with source.open(beside(source.path, ".ann")) as file:
        for line, row in numbered_lines(file):
            if isinstance(row, BadRecord):
                yield row
                return
            if not row.startswith("T"):
                continue
            try:
                for entity in _entities(row, text, options):
                    checked_document("", text, [entity])  # so that the message names the line
                    entities.append(entity)
            except RecordProblem as error:
                yield BadRecord(line, str(error).removeprefix("entity 0: "))
                return
    yield checked_document(document_id_of(source), text, entities)


def _entities(row: str, text: str, options: ReadOptions) -> Iterator[tuple[int, int, str, None]]:
    match = _ENTITY.fullmatch(row)
    if not match:
        raise RecordProblem("it is not an entity: expected T1, a tab, a label, a start and an end")
    parts = [(int(start), int(end)) for start, end in (part.split(" ") for part in match[2].split(";"))]
    gaps = [text[end:start] for (_, end), (start, _) in pairwise(parts)]
    if all(gap.isspace() and ("\n" in gap or "\r" in gap) for gap in gaps):
        yield parts[0][0], parts[-1][1], match[1], None
    elif options.flatten == "refuse":
        raise RecordProblem(f"the entity has {len(parts)} parts. {DISCONTINUOUS_REMEDY}")
    else:
        options.left_out["discontinuous"] += 1


def read_text(source: Source, path: str) -> str:
    """Return the text of a document that has a file of its own; line ends stay as they are.

    Args:
        source: opens files.
        path: the file.

    Raises:
        CoreError: `data.not_found`, `data.bad_record` if it is not UTF-8.
    """
    try:
        with source.open(path) as file:
            content = file.read()
    except (FileNotFoundError, IsADirectoryError) as error:
        raise CoreError("data.not_found", path=path, suggestion=suggest_file(path)) from error
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        problem = f"byte {error.start} of the file is not UTF-8: convert the file"
        raise CoreError("data.bad_record", path=path, line=line, problem=problem) from error


def write_brat(documents: Iterable[AnnotatedDocument], open: Opener, options: WriteOptions) -> None:
    """Write a text and an annotation file per document, and `annotation.conf` with the labels.

    Args:
        documents: the documents.
        open: opens a file of the output.
        options: not used.

    Raises:
        CoreError: `format.cannot_write` for a label with white space, or an entity that begins or ends with a line end.
    """
    names, labels = FileNames(), set()
    for document in documents:
        name = names.of(document.document_id)
        rows = []
        for number, entity in enumerate(document.entities, start=1):
            surface = document.text[entity.char_start : entity.char_end]
            problem = None
            if len(entity.label.split()) != 1:
                problem = f"the label {entity.label[:60]!r} has white space"
            elif surface != surface.strip("\r\n"):
                problem = f"{shown(document, entity)} begins or ends with a line end"
            if problem is not None:
                name = document.document_id[:60]
                raise CoreError("format.cannot_write", format="brat", document=name, problem=problem)
            parts = [match.span() for match in re.finditer(r"[^\r\n]+", surface)]
            ranges = ";".join(f"{entity.char_start + start} {entity.char_start + end}" for start, end in parts)
            shown_text = " ".join(surface[start:end] for start, end in parts)
            rows.append(f"T{number}\t{entity.label} {ranges}\t{shown_text}\n")
            labels.add(entity.label)
        for ending, content in ((".txt", document.text), (".ann", "".join(rows))):
            with open(name + ending) as file:
                file.write(content.encode())
    with open(CONFIGURATION) as file:
        file.write("\n".join(["[entities]", *sorted(labels), "[relations]", "[events]", "[attributes]", ""]).encode())

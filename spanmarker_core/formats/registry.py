"""The formats of annotated documents."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import IO, Any

from spanmarker_core.data.blocks import DamagedFile
from spanmarker_core.data.jsonl import LINE_ENDINGS
from spanmarker_core.data.records import BadRecord
from spanmarker_core.errors import CoreError
from spanmarker_core.formats import (
    brat,
    cas,
    conll,
    conllu,
    dataset_folder,
    json_forms,
    label_studio,
    parquet,
    spacy_docs,
    web_annotations,
)
from spanmarker_core.formats.document import AnnotatedDocument, BadRow
from spanmarker_core.formats.flatten import Kept, fitting_documents
from spanmarker_core.formats.folders import Opener
from spanmarker_core.formats.options import ReadOptions, Source, WriteOptions
from spanmarker_core.text.tag_schemes import TAG_SCHEMES

#: Documents of which the tags are tried in each scheme, if the user names none.
_TRIED = 1000
Reader = Callable[[Source, ReadOptions], Iterator[AnnotatedDocument | BadRecord]]


@dataclass(frozen=True, slots=True)
class Format:
    """A format of annotated documents.

    Attributes:
        name: its name on the command line.
        endings: endings of its files, the usual one first.
        one_file_per_document: whether each document has files of its own.
        folder: whether it consists of several files: its writer gets an `Opener` instead of a file.
        nested: whether entities may share words or characters, so that they nest or cross.
        needs_words: whether it holds words instead of a text; others get the text exactly.
        reader: yields the documents of a source, and a `BadRecord` for each invalid one.
        writer: writes documents that have gone through `fitting_documents`; None if the format is only read.
        extra: extra of this package that installs the format's library, if it needs one.
    """

    name: str
    endings: tuple[str, ...]
    reader: Reader
    writer: Callable[[Iterable[AnnotatedDocument], Any, WriteOptions], None] | None
    nested: bool = True
    needs_words: bool = False
    one_file_per_document: bool = False
    folder: bool = False
    extra: str | None = None


_LINES, _ARRAY = (*LINE_ENDINGS, ".json"), (".json", ".jsonl")
_FLAT: dict[str, Any] = {"nested": False, "needs_words": True}
_FILES: dict[str, Any] = {"one_file_per_document": True, "folder": True}

FORMATS: dict[str, Format] = {
    each.name: each
    for each in (
        Format("jsonl", _LINES, json_forms.read_documents, json_forms.write_documents),
        Format("sentences", _LINES, json_forms.read_sentences, json_forms.write_sentences, needs_words=True),
        Format("parquet", (".parquet",), parquet.read_parquet, None),
        Format("tags", _LINES, json_forms.read_tags, None, **_FLAT),
        Format("datasets", (), dataset_folder.read_dataset, dataset_folder.write_dataset, **_FLAT, folder=True),
        Format(
            "conll", (".conll", ".iob", ".iob2", ".bio", ".txt", ".tsv"), conll.read_conll, conll.write_conll, **_FLAT
        ),
        Format("conllu", (".conllu",), conllu.read_conllu, conllu.write_conllu, **_FLAT),
        Format("spacy", (".spacy",), spacy_docs.read_spacy, spacy_docs.write_spacy, extra="spacy"),
        Format("brat", (".ann",), brat.read_brat, brat.write_brat, **_FILES),
        Format("label-studio", _ARRAY, label_studio.read_label_studio, label_studio.write_label_studio),
        Format("doccano", _LINES, json_forms.read_doccano, json_forms.write_doccano),
        Format("prodigy", _LINES, json_forms.read_prodigy, json_forms.write_prodigy),
        Format("gliner", _ARRAY, json_forms.read_gliner, json_forms.write_gliner, needs_words=True),
        Format(
            "web-annotations",
            (".jsonld",),
            web_annotations.read_web_annotations,
            web_annotations.write_web_annotations,
            **_FILES,
        ),
        Format("cas", (".xmi",), cas.read_cas, cas.write_cas, **_FILES, extra="cas"),
    )
}


def format_called(name: str, *, written: bool = False) -> Format:
    """Return a format by its name.

    Args:
        name: the name.
        written: whether it is needed for writing.

    Raises:
        CoreError: `call.unknown_option`, `format.not_writable`.
    """
    writable = ", ".join(each.name for each in FORMATS.values() if each.writer)
    if name not in FORMATS:
        choices = writable if written else ", ".join(FORMATS)
        raise CoreError("call.unknown_option", option="--to" if written else "--from", value=name, choices=choices)
    if written and FORMATS[name].writer is None:
        raise CoreError("format.not_writable", format=name, formats=writable)
    return FORMATS[name]


def read_documents(source: Source, name: str, options: ReadOptions) -> Iterator[AnnotatedDocument]:
    """Yield the documents of a source, strictly.

    Args:
        source: the source.
        name: name of its format.
        options: options of the reader.

    Raises:
        CoreError: `call.unknown_option`; while reading, `data.bad_record`, `data.bad_row` or `data.bad_dataset` at the
            first invalid record, and the errors of the reader.
    """
    found = format_called(name)
    for item in _records(source, name, options):
        if isinstance(item, AnnotatedDocument):
            yield item
        elif not isinstance(item, BadRow):
            raise CoreError("data.bad_record", path=source.path, line=item.place, problem=item.problem.rstrip("."))
        elif found.one_file_per_document:
            raise CoreError("data.bad_dataset", path=source.path, problem=item.problem.rstrip("."))
        else:
            raise CoreError("data.bad_row", path=source.path, row=item.place, problem=item.problem.rstrip("."))


def _records(source: Source, name: str, options: ReadOptions) -> Iterator[AnnotatedDocument | BadRecord]:
    try:
        yield from FORMATS[name].reader(source, options)
    except CoreError as error:
        raise (scheme_needed(source, name, options) if error.code == "data.scheme_needed" else error) from None


def scheme_needed(source: Source, name: str, options: ReadOptions) -> CoreError:
    """Return the error for tags without a scheme, which names the schemes in which the first tags can be read.

    Args:
        source: the source.
        name: name of its format.
        options: options of the reader.
    """
    fitting = [scheme for scheme in TAG_SCHEMES if _fits(source, name, replace(options, scheme=scheme))]
    # Without prefixes nearly all tags are valid, so `plain` only means something if nothing else fits.
    prefixed = [scheme for scheme in fitting if scheme != "plain"]
    telling = fitting and len(prefixed) < len(TAG_SCHEMES) - 1
    likely = f" The first tags can be read as {' or '.join(prefixed or fitting)}." if telling else ""
    return CoreError("data.scheme_needed", path=source.path, likely=likely, schemes=", ".join(TAG_SCHEMES))


def _fits(source: Source, name: str, options: ReadOptions) -> bool:
    """Return whether the first documents of a source can be read."""
    try:
        first = islice(FORMATS[name].reader(source, options), _TRIED)
        return not any(isinstance(item, BadRecord) for item in first)
    except (CoreError, DamagedFile):
        return False


def write_documents(
    documents: Iterable[AnnotatedDocument], name: str, target: IO[bytes] | Opener, options: WriteOptions
) -> Kept:
    """Write documents in a format, as a stream.

    Args:
        documents: the documents.
        name: name of the format.
        target: receives it: a binary file, or, if the format is a folder, a function that opens one of its files.
        options: options of the writer.

    Returns:
        What was written, and what the format can't hold.

    Raises:
        CoreError: `call.unknown_option`, `format.not_writable`, `format.cannot_hold`, and the errors of the writer.
    """
    found = format_called(name, written=True)
    assert found.writer
    kept = Kept()
    fitting = fitting_documents(
        documents,
        name=name,
        flat=not found.nested,
        needs_words=found.needs_words,
        flatten=options.flatten,
        language=options.language,
        kept=kept,
    )
    found.writer(fitting, target, options)
    return kept

"""CoNLL files: one word per line with its tag. `spanmarker_core.data.conll` describes what is read."""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import IO

from spanmarker_core.data.conll import COMMENT, DOCUMENT_START, conll_records
from spanmarker_core.data.records import BadRecord, Sentence, word_problem
from spanmarker_core.errors import CoreError
from spanmarker_core.formats.document import AnnotatedDocument, joined_documents
from spanmarker_core.formats.options import ReadOptions, Source, WriteOptions
from spanmarker_core.formats.words import word_sentences
from spanmarker_core.text.tag_schemes import TAG_SCHEMES, check_tag_scheme, spans_to_tags

_SEPARATORS = ("\t", "\n", "\r")


def read_conll(source: Source, options: ReadOptions) -> Iterator[AnnotatedDocument | BadRecord]:
    """Read a CoNLL file document by document.

    Args:
        source: the file.
        options: options of the reader.

    Raises:
        CoreError: `data.scheme_needed`, `call.unknown_option`.
    """
    if options.scheme is None:
        raise CoreError("data.scheme_needed", path=source.path, likely="", schemes=", ".join(TAG_SCHEMES))
    scheme = check_tag_scheme(options.scheme)
    with source.open(source.path) as file:
        records = conll_records(file, scheme, options.token_column, options.tag_column, source.name)
        yield from joined_documents(record for _, record in records)


def write_conll(documents: Iterable[AnnotatedDocument], file: IO[bytes], options: WriteOptions) -> None:
    """Write two columns, word and tag, with a tab between them, and `-DOCSTART-` before each document.

    Args:
        documents: documents with sentences and flat entities.
        file: receives the lines.
        options: names the scheme.

    Raises:
        CoreError: `format.cannot_write`, `call.unknown_option`, `format.adjacent`.
    """
    scheme = check_tag_scheme(options.scheme)
    for document in documents:
        lines = [f"{DOCUMENT_START}\tO", ""]
        for sentence in word_sentences(document)[0]:
            if not sentence.words:
                continue
            tags = tags_of(sentence, scheme)
            rows = [f"{word}\t{tag}" for word, tag in zip(sentence.words, tags, strict=True)]
            check_cells("conll", document.document_id, [*sentence.words, *tags])
            if COMMENT.match(rows[0]) or any(word.split(" ")[0] == DOCUMENT_START for word in sentence.words):
                problem = f"the word {sentence.words[0][:60]!r} would begin a comment or a document"
                raise CoreError(
                    "format.cannot_write", format="conll", document=document.document_id[:60], problem=problem
                )
            lines += [*rows, ""]
        file.write(("\n".join(lines) + "\n").encode())


def tags_of(sentence: Sentence, scheme: str) -> list[str]:
    """Return the tag of each word.

    Args:
        sentence: a sentence with flat entities.
        scheme: name of a tag scheme.

    Raises:
        CoreError: `format.adjacent`.
    """
    try:
        return spans_to_tags(sentence.entities, len(sentence.words), scheme)
    except CoreError as error:
        if error.code != "labels.adjacent":
            raise
        document, label = sentence.document_id[:60], error.values["label"]
        raise CoreError("format.adjacent", document=document, label=label, scheme=scheme) from error


def check_cells(name: str, document_id: str, cells: Iterable[str]) -> None:
    """Check that words and tags can be cells of a table with tabs.

    Args:
        name: name of the format, for the message.
        document_id: id of the document, for the message.
        cells: the words and tags.

    Raises:
        CoreError: `format.cannot_write`.
    """
    for cell in cells:
        if not _is_cell(cell):
            problem = f"{cell[:60]!r} has white space that would end a column"
            raise CoreError("format.cannot_write", format=name, document=document_id[:60], problem=problem)


@lru_cache(1 << 16)
def _is_cell(text: str) -> bool:
    return not word_problem(text) and text == text.strip(" \t") and not any(mark in text for mark in _SEPARATORS)

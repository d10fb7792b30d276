"""JSON lines and arrays: our own documents and sentences, and those of doccano, Prodigy, GLiNER and Hugging Face."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import IO, Any

from spanmarker_core.data.records import BadRecord
from spanmarker_core.formats.document import AnnotatedDocument, AnnotatedEntity
from spanmarker_core.formats.json_files import JsonFile, write_array, write_lines
from spanmarker_core.formats.options import ReadOptions, Source, WriteOptions
from spanmarker_core.formats.records import documents_of
from spanmarker_core.formats.words import word_sentences


def _read(form: str, source: Source, options: ReadOptions) -> Iterator[AnnotatedDocument | BadRecord]:
    with source.open(source.path) as file:
        records = JsonFile(file)
        yield from documents_of(records, form, source, options, records.bad)


read_documents, read_sentences, read_tags, read_doccano, read_prodigy, read_gliner = (
    partial(_read, form) for form in ("documents", "sentences", "tags", "doccano", "prodigy", "gliner")
)


def write_documents(documents: Iterable[AnnotatedDocument], file: IO[bytes], options: WriteOptions) -> None:
    """Write one {id, text, entities} per line, for `spanmarker prepare --annotated` and `spanmarker train`.

    Args:
        documents: the documents.
        file: receives the lines.
        options: not used.
    """
    write_lines(
        (
            {"id": each.document_id, "text": each.text, "entities": [_entity(entity) for entity in each.entities]}
            for each in documents
        ),
        file,
    )


def write_sentences(documents: Iterable[AnnotatedDocument], file: IO[bytes], options: WriteOptions) -> None:
    """Write one {document_id, sentence_id, tokens, entities} per line, which keeps the words.

    Args:
        documents: documents with sentences.
        file: receives the lines.
        options: not used.
    """
    write_lines(
        (
            {
                "document_id": sentence.document_id,
                "sentence_id": sentence.sentence_id,
                "tokens": sentence.words,
                "entities": [{"start": span.start, "end": span.end, "label": span.label} for span in sentence.entities],
            }
            for document in documents
            for sentence in word_sentences(document)[0]
        ),
        file,
    )


def write_doccano(documents: Iterable[AnnotatedDocument], file: IO[bytes], options: WriteOptions) -> None:
    """Write doccano's JSON lines for sequence labelling.

    Args:
        documents: the documents.
        file: receives the lines.
        options: not used.
    """
    write_lines(
        (
            {
                "id": each.document_id,
                "text": each.text,
                "label": [[entity.char_start, entity.char_end, entity.label] for entity in each.entities],
            }
            for each in documents
        ),
        file,
    )


def write_prodigy(documents: Iterable[AnnotatedDocument], file: IO[bytes], options: WriteOptions) -> None:
    """Write Prodigy's JSON lines; ids are in `meta`, where its interface shows them.

    Args:
        documents: the documents.
        file: receives the lines.
        options: not used.
    """
    write_lines(
        (
            {
                "text": each.text,
                "meta": {"id": each.document_id},
                "spans": [_entity(entity) for entity in each.entities],
                "answer": "accept",
            }
            for each in documents
        ),
        file,
    )


def write_gliner(documents: Iterable[AnnotatedDocument], file: IO[bytes], options: WriteOptions) -> None:
    """Write the training data of GLiNER: an array with one record per sentence; ends are inclusive.

    Args:
        documents: documents with sentences.
        file: receives the array.
        options: not used.
    """
    write_array(
        (
            {
                "tokenized_text": sentence.words,
                "ner": [[span.start, span.end - 1, span.label] for span in sentence.entities],
            }
            for document in documents
            for sentence in word_sentences(document)[0]
        ),
        file,
    )


def _entity(entity: AnnotatedEntity) -> dict[str, Any]:
    record = {"start": entity.char_start, "end": entity.char_end, "label": entity.label}
    return record if entity.score is None else {**record, "score": entity.score}

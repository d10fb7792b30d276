"""UIMA CAS as XMI: one `NAME.xmi` per document, and the `TypeSystem.xml` that they share.

The types are those of DKPro Core, which INCEpTION uses too: NamedEntity, Sentence and Token. The files count UTF-16
units, as Java does, and dkpro-cassis converts them.
"""

import warnings
from collections.abc import Iterable, Iterator
from functools import lru_cache
from io import BytesIO
from typing import Any

from spanmarker_core.data.records import BadRecord, RecordProblem
from spanmarker_core.errors import CoreError
from spanmarker_core.formats.document import AnnotatedDocument, AnnotatedSentence, BadRow, checked_document
from spanmarker_core.formats.folders import FileNames, Opener, document_id_of
from spanmarker_core.formats.options import ReadOptions, Source, WriteOptions, optional_module

TYPE_SYSTEM = "TypeSystem.xml"
_ENTITY = "de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity"
_SEGMENTATION = "de.tudarmstadt.ukp.dkpro.core.api.segmentation.type"
_SENTENCE, _TOKEN = f"{_SEGMENTATION}.Sentence", f"{_SEGMENTATION}.Token"


def read_cas(source: Source, options: ReadOptions) -> Iterator[AnnotatedDocument | BadRecord]:
    """Read one document.

    Args:
        source: the `.xmi` file; `TypeSystem.xml` is read if it is in the same folder.
        options: not used.

    Raises:
        CoreError: `format.not_installed`.
    """
    cassis = optional_module("cassis", "cas")
    try:
        cas = _load(cassis, source)
    except CoreError:
        raise
    except Exception as error:  # lxml and cassis raise many kinds of errors for damaged files
        yield BadRow(0, f"cassis can't read it ({' '.join(str(error).split())[:300]})")
        return
    try:
        if not cas.typesystem.contains_type(_ENTITY):
            raise RecordProblem(f"its type system has no {_ENTITY}")
        entities = [(each.begin, each.end, each.value, None) for each in cas.select(_ENTITY)]
        document = checked_document(document_id_of(source), cas.sofa_string or "", entities)
        yield AnnotatedDocument(document.document_id, document.text, _sentences(cas), document.entities)
    except RecordProblem as error:
        yield BadRow(0, str(error))


def _load(cassis: Any, source: Source) -> Any:
    try:
        with source.open(source.path[: source.path.rfind("/") + 1] + TYPE_SYSTEM) as file:
            types = _type_system(file.read())
    except FileNotFoundError:
        types = _types()  # other types are ignored
    with source.open(source.path) as file, warnings.catch_warnings():
        warnings.simplefilter("error")  # of offsets beyond the text
        return cassis.load_cas_from_xmi(BytesIO(file.read()), typesystem=types, lenient=True)


def _sentences(cas: Any) -> list[AnnotatedSentence] | None:
    """Return the sentences with their words, or None if the document isn't split into both."""
    if not (cas.typesystem.contains_type(_SENTENCE) and cas.typesystem.contains_type(_TOKEN)):
        return None
    tokens = [(token.begin, token.end) for token in cas.select(_TOKEN) if token.begin < token.end]
    sentences, at = [], 0
    for sentence in cas.select(_SENTENCE):
        while at < len(tokens) and tokens[at][0] < sentence.begin:
            at += 1
        first = at
        while at < len(tokens) and tokens[at][1] <= sentence.end:
            at += 1
        if first < at:
            sentences.append(AnnotatedSentence(sentence.begin, sentence.end, tokens[first:at]))
    return sentences or None


@lru_cache(8)  # a folder has one, and reading it takes longer than reading a document
def _type_system(content: bytes) -> Any:
    return optional_module("cassis", "cas").load_typesystem(BytesIO(content))


@lru_cache(1)
def _types() -> Any:
    cassis = optional_module("cassis", "cas")
    types = cassis.TypeSystem()
    entity = types.create_type(_ENTITY, supertypeName="uima.tcas.Annotation")
    for name in ("value", "identifier"):
        types.create_feature(entity, name, "uima.cas.String")
    for name in (_SENTENCE, _TOKEN):
        types.create_type(name, supertypeName="uima.tcas.Annotation")
    return types


def write_cas(documents: Iterable[AnnotatedDocument], open: Opener, options: WriteOptions) -> None:
    """Write one XMI file per document, and the type system.

    Args:
        documents: the documents.
        open: opens a file of the output.
        options: not used.

    Raises:
        CoreError: `format.not_installed`; `format.cannot_write` for characters that XML does not allow.
    """
    cassis = optional_module("cassis", "cas")
    types, names = _types(), FileNames()
    entity, sentence, token = (types.get_type(name) for name in (_ENTITY, _SENTENCE, _TOKEN))
    with open(TYPE_SYSTEM) as file:
        file.write(types.to_xml().encode())
    for document in documents:
        cas = cassis.Cas(typesystem=types)
        cas.sofa_string, cas.sofa_mime = document.text, "text/plain"
        for each in document.entities:
            cas.add(entity(begin=each.char_start, end=each.char_end, value=each.label))
        for part in document.sentences or []:
            cas.add(sentence(begin=part.char_start, end=part.char_end))
            for start, end in part.words:
                cas.add(token(begin=start, end=end))
        try:
            content = cas.to_xmi().encode()
        except ValueError as error:
            name, problem = document.document_id[:60], "it has control characters, which XML does not allow"
            raise CoreError("format.cannot_write", format="cas", document=name, problem=problem) from error
        with open(f"{names.of(document.document_id)}.xmi") as file:
            file.write(content)

"""spaCy's `DocBin`: tokens with `doc.ents` and `doc.spans`.

All entities are written to `doc.spans["sc"]`, the key of spaCy's span categorizer; if none share a token they are also
`doc.ents`. Tokens are the words, cut at the edges of entities, so every entity has its exact offsets. A `DocBin` is one
block of bytes, so its documents are in memory together.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import IO, Any

from spanmarker_core.data.records import BadRecord, RecordProblem
from spanmarker_core.errors import CoreError
from spanmarker_core.formats.document import AnnotatedDocument, AnnotatedSentence, BadRow, checked_document
from spanmarker_core.formats.options import ReadOptions, Source, WriteOptions, optional_module
from spanmarker_core.text.words import split_words

_GROUP, _ID = "sc", "document_id"
_ATTRIBUTES = ["ORTH", "SPACY", "SENT_START", "ENT_IOB", "ENT_TYPE"]


def read_spacy(source: Source, options: ReadOptions) -> Iterator[AnnotatedDocument | BadRecord]:
    """Read the documents of a `DocBin` with the entities of `doc.ents` and of all span groups.

    Args:
        source: the file.
        options: not used.

    Raises:
        CoreError: `format.not_installed`, `data.bad_dataset`.
    """
    tokens, vocab = optional_module("spacy.tokens", "spacy"), optional_module("spacy.vocab", "spacy").Vocab()
    with source.open(source.path) as file:
        content = file.read()
    try:
        docs = tokens.DocBin(store_user_data=True).from_bytes(content).get_docs(vocab)
        for number, doc in enumerate(docs):
            try:
                yield _document(doc, f"{source.name}-{number}")
            except RecordProblem as error:
                yield BadRow(number, str(error))
    except (CoreError, GeneratorExit):
        raise
    except Exception as error:  # spaCy, msgpack and zlib raise exceptions of their own for damaged files
        reason = " ".join(str(error).split())[:300]
        raise CoreError("data.bad_dataset", path=source.path, problem=f"spaCy can't read it ({reason})") from error


def _document(doc: Any, made_id: str) -> AnnotatedDocument:
    document_id = doc.user_data.get(_ID)
    spans = [*doc.ents, *(span for group in doc.spans.values() for span in group)]
    entities = [(span.start_char, span.end_char, span.label_, None) for span in spans]
    document = checked_document(document_id if isinstance(document_id, str) else made_id, doc.text, entities)
    if not len(doc) or not doc.has_annotation("SENT_START"):
        return document
    sentences = []
    for sentence in doc.sents:
        words = [(token.idx, token.idx + len(token)) for token in sentence if not token.text.isspace()]
        if words:
            sentences.append(AnnotatedSentence(words[0][0], words[-1][1], words))
    return AnnotatedDocument(document.document_id, document.text, sentences, document.entities)


def write_spacy(documents: Iterable[AnnotatedDocument], file: IO[bytes], options: WriteOptions) -> None:
    """Write a `DocBin`, such as `spacy train` reads.

    Args:
        documents: the documents.
        file: receives it.
        options: not used.

    Raises:
        CoreError: `format.not_installed`.
    """
    tokens, vocab = optional_module("spacy.tokens", "spacy"), optional_module("spacy.vocab", "spacy").Vocab()
    found = tokens.DocBin(attrs=_ATTRIBUTES, store_user_data=True)
    for document in documents:
        found.add(_doc(document, tokens, vocab))
    file.write(found.to_bytes())


def _doc(document: AnnotatedDocument, tokens: Any, vocab: Any) -> Any:
    words, spaces, starts = _tokens(document)
    first = {start: index for index, start in enumerate(starts)}
    after = {start + len(word): index + 1 for index, (start, word) in enumerate(zip(starts, words, strict=True))}
    begin = {sentence.char_start for sentence in document.sentences or []}
    sentence_starts = [start in begin or not index for index, start in enumerate(starts)] if begin else None
    doc = tokens.Doc(vocab, words=words, spaces=spaces, sent_starts=sentence_starts)
    doc.user_data[_ID] = document.document_id
    spans = [
        tokens.Span(doc, first[entity.char_start], after[entity.char_end], label=entity.label)
        for entity in document.entities
    ]
    doc.spans[_GROUP] = spans
    if all(one.end <= other.start for one, other in pairwise(spans)):
        doc.ents = spans
    return doc


def _tokens(document: AnnotatedDocument) -> tuple[list[str], list[bool], list[int]]:
    """Return the tokens, whether a space follows each, and the first character of each."""
    text = document.text
    bounds: Iterable[tuple[int, int]]
    if document.sentences is None:
        bounds = zip(*(edges.tolist() for edges in split_words(text)), strict=True)
    else:
        bounds = (word for sentence in document.sentences for word in sentence.words)
    starts = {entity.char_start for entity in document.entities}
    ends = {entity.char_end for entity in document.entities}
    begin = {sentence.char_start for sentence in document.sentences or []}
    cuts = sorted({0, len(text), *starts, *ends, *begin, *(edge for pair in bounds for edge in pair)})
    words: list[str] = []
    spaces: list[bool] = []
    token_starts: list[int] = []
    for start, end in pairwise(cuts):
        inside = start in starts or start + 1 in ends or start in begin  # the space belongs to an entity
        if text[start] == " " and words and not spaces[-1] and not inside:
            spaces[-1] = True
            start += 1
        if start < end:
            words.append(text[start:end])
            spaces.append(False)
            token_starts.append(start)
    return words, spaces, token_starts

r"""CoNLL-U files with entities as `NER=` in the MISC column, one tag per word.

    # newdoc id = d1
    # sent_id = d1-0
    # text = Ada met Bern.
    1   Ada    _   _   _   _   _   _   _   NER=B-PER
    2   met    _   _   _   _   _   _   _   _
    3   Bern   _   _   _   _   _   _   _   NER=B-LOC|SpaceAfter=No
    4   .      _   _   _   _   _   _   _   SpacesAfter=\n

White space is kept as UDPipe keeps it (`SpacesAfter`, `SpacesBefore`), so the text comes back exactly. Read are also
`ner=` (Stanza) and `Entity=` with tags, and files without documents, whose sentences are documents of their own.
"""

import re
from collections.abc import Iterable, Iterator
from typing import IO, BinaryIO

from spanmarker_core.data.conll import CONLLU_COLUMNS
from spanmarker_core.data.hf import read_tags
from spanmarker_core.data.lines import numbered_lines
from spanmarker_core.data.records import BadRecord, RecordProblem, word_problem
from spanmarker_core.formats.conll import check_cells, tags_of
from spanmarker_core.formats.document import AnnotatedDocument, AnnotatedEntity, AnnotatedSentence, entity_order
from spanmarker_core.formats.options import ReadOptions, Source, WriteOptions
from spanmarker_core.formats.words import word_sentences
from spanmarker_core.text.tag_schemes import OUTSIDE, check_tag_scheme

_NEW_DOCUMENT = re.compile(r"#[ \t]*newdoc\b(?:[ \t]+id[ \t]*=[ \t]*(.*))?")
#: A range of words that share a surface form, whose words follow, or an empty node.
_NOT_A_WORD = re.compile(r"\d+[-.]\d+")
_ENTITY_KEYS = ("ner", "entity")
_ESCAPES = {" ": r"\s", "\t": r"\t", "\n": r"\n", "\r": r"\r", "|": r"\p", "\\": r"\\"}
_ESCAPED = {escape: character for character, escape in _ESCAPES.items()}


class _Document:
    """A document that is being read."""

    def __init__(self, document_id: str) -> None:
        self.document_id = document_id
        self.text: list[str] = []
        self.length = 0
        self.sentences: list[AnnotatedSentence] = []
        self.entities: list[AnnotatedEntity] = []
        self.gap: str | None = ""  # white space after the last word; None is a space if a sentence follows

    def add(self, rows: list["_Row"], scheme: str) -> None:
        """Add a sentence."""
        entities = read_tags([row.tag for row in rows], scheme)
        self._append((" " if self.gap is None else self.gap) + rows[0].before)
        words = []
        for number, row in enumerate(rows):
            words.append((self.length, self.length + len(row.form)))
            self._append(row.form)
            self.gap = row.after
            if number + 1 < len(rows):
                self._append(" " if row.after is None else row.after)
        self.sentences.append(AnnotatedSentence(words[0][0], words[-1][1], words))
        for span in entities:
            self.entities.append(AnnotatedEntity(words[span.start][0], words[span.end - 1][1], span.label))

    def finished(self) -> AnnotatedDocument:
        """Return the document."""
        self._append(self.gap or "")
        entities = sorted(self.entities, key=entity_order)
        return AnnotatedDocument(self.document_id, "".join(self.text), self.sentences, entities)

    def _append(self, text: str) -> None:
        self.text.append(text)
        self.length += len(text)


class _Row:
    """A word: its form, its tag, and the white space around it, None where the file doesn't say."""

    __slots__ = ("after", "before", "form", "tag")

    def __init__(self, columns: list[str]) -> None:
        self.form, misc = columns[1], columns[9]
        self.tag, self.before = OUTSIDE, ""
        self.after: str | None = None
        if problem := word_problem(self.form):
            raise RecordProblem(f"the form {problem}")
        for value in misc.split("|"):
            key, _, value = value.partition("=")
            if key.lower() in _ENTITY_KEYS:
                self.tag = _unescaped(value)
            elif key == "SpaceAfter" and value == "No":
                self.after = ""
            elif key == "SpacesAfter":
                self.after = _unescaped(value)
            elif key == "SpacesBefore":
                self.before = _unescaped(value)


def read_conllu(source: Source, options: ReadOptions) -> Iterator[AnnotatedDocument | BadRecord]:
    """Read a CoNLL-U file document by document.

    Args:
        source: the file.
        options: options of the reader; the scheme is IOB2 by default.

    Raises:
        CoreError: `call.unknown_option`.
    """
    scheme = check_tag_scheme(options.scheme or "IOB2")
    with source.open(source.path) as file:
        document: _Document | None = None
        numbered, has_documents = 0, False
        for line, block in _blocks(file):
            if isinstance(block, BadRecord):
                yield block
                continue
            if isinstance(block, str):
                if document:
                    yield document.finished()
                document, has_documents = _Document(block or f"{source.name}-{numbered}"), True
                numbered += 1
                continue
            if not has_documents:
                if document:
                    yield document.finished()
                document = _Document(f"{source.name}-{numbered}")
                numbered += 1
            try:
                assert document
                document.add(block, scheme)
            except RecordProblem as error:
                yield BadRecord(line, str(error))
                document = None if not has_documents else document
        if document:
            yield document.finished()


def _blocks(file: BinaryIO) -> Iterator[tuple[int, list[_Row] | str | BadRecord]]:
    """Yield (first line, rows) for each sentence, and (line, id) for each beginning of a document."""
    rows: list[_Row] = []
    bad: BadRecord | None = None
    start_line = 0
    for line, text in numbered_lines(file):
        if isinstance(text, BadRecord):
            bad = bad or text
            continue
        if not text.strip():
            if rows or bad:
                yield start_line, bad or rows
            rows, bad = [], None
            continue
        if text.startswith("#") and not rows:
            if new := _NEW_DOCUMENT.match(text):
                yield line, _unescaped((new[1] or "").strip(" \t"))
            continue
        start_line = start_line if rows else line
        columns = text.split("\t")
        try:
            if len(columns) != len(CONLLU_COLUMNS):
                raise RecordProblem(f"it has {len(columns)} columns between tabs, and CoNLL-U has 10")
            if not _NOT_A_WORD.fullmatch(columns[0]):
                rows.append(_Row(columns))
        except RecordProblem as error:
            bad = bad or BadRecord(line, str(error))
    if rows or bad:
        yield start_line, bad or rows


def write_conllu(documents: Iterable[AnnotatedDocument], file: IO[bytes], options: WriteOptions) -> None:
    """Write documents with their exact texts.

    Args:
        documents: documents with sentences and flat entities.
        file: receives the lines.
        options: names the scheme.

    Raises:
        CoreError: `format.cannot_write`, `call.unknown_option`, `format.adjacent`.
    """
    scheme = check_tag_scheme(options.scheme)
    for document in documents:
        file.write(f"# newdoc id = {_escaped(document.document_id)}\n".encode())
        placed = zip(word_sentences(document)[0], document.sentences or [], strict=True)
        sentences = [(sentence, there.words) for sentence, there in placed if there.words]
        for number, (sentence, words) in enumerate(sentences):
            end = sentences[number + 1][1][0][0] if number + 1 < len(sentences) else len(document.text)
            tags = tags_of(sentence, scheme)
            check_cells("conllu", document.document_id, [*sentence.words, *tags])
            first, last = words[0][0], words[-1][1]
            lines = [
                f"# sent_id = {_escaped(document.document_id)}-{number}",
                f"# text = {' '.join(document.text[first:last].split())}",
            ]
            for index, (word, tag) in enumerate(zip(words, tags, strict=True)):
                misc = [] if tag == OUTSIDE else [f"NER={_escaped(tag)}"]
                if number == index == 0 and first:
                    misc.append(f"SpacesBefore={_escaped(document.text[:first])}")
                gap = document.text[word[1] : words[index + 1][0] if index + 1 < len(words) else end]
                if not gap:
                    misc.append("SpaceAfter=No")
                elif gap != " " or word[1] + 1 == len(document.text):
                    misc.append(f"SpacesAfter={_escaped(gap)}")
                columns = [str(index + 1), sentence.words[index], *"_" * 7, "|".join(misc) or "_"]
                lines.append("\t".join(columns))
            file.write(("\n".join(lines) + "\n\n").encode())


def _escaped(text: str) -> str:
    return "".join(_ESCAPES.get(character, character) for character in text)


def _unescaped(text: str) -> str:
    return re.sub(r"\\[stnrp\\]", lambda match: _ESCAPED[match[0]], text)

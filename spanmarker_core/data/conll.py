"""The CoNLL reader: one word per line with its tag, and a blank line after each sentence.

    -DOCSTART- -X- -X- O

    Ada      NNP  I-NP  B-PER
    met      VBD  I-VP  O

- Columns are separated by any run of blanks and tabs; each line has as many columns as the first one.
- A line of only blanks and tabs ends a sentence, and so does `-DOCSTART-`.
- `-DOCSTART-` begins a document and is never a word. Documents are doc-0, doc-1, ... in file order. If a
  file does not begin with `-DOCSTART-`, its documents are unknown: each sentence is its own document, so
  that no sentence gets an unrelated one as context. A later `-DOCSTART-` in such a file is an error.
- A line that begins with `# id ` at the start of a sentence is a comment (MultiCoNER); any other `#` is a word.
- Line ends are LF or CRLF and are never part of a tag.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from spanmarker_core.data.lines import numbered_lines
from spanmarker_core.data.records import BadRecord, Sentence, word_problem
from spanmarker_core.errors import CoreError
from spanmarker_core.text.tag_schemes import check_tag_scheme, tags_to_spans

DOCUMENT_START = "-DOCSTART-"
COMMENT_START = "# id "

_SEPARATOR = re.compile(r"[ \t]+")
_BLANK = " \t"


def read_conll(path: str | Path, scheme: str, *, token_column: int = 0, tag_column: int = -1) -> Iterator[Sentence]:
    """Read a CoNLL file sentence by sentence.

    Args:
        path: the file.
        scheme: a tag scheme, followed strictly.
        token_column: column of the token, from 0, or from -1 backwards.
        tag_column: column of the tag, counted in the same way.

    Raises:
        CoreError: at once, `call.unknown_option` for an unknown scheme or one without tags; while reading,
            `data.bad_record` with the line of the first error.
    """
    return _read(Path(path), check_tag_scheme(scheme), token_column, tag_column)


def _read(path: Path, scheme: str, token_column: int, tag_column: int) -> Iterator[Sentence]:
    with path.open("rb") as file:
        for _, record in conll_records(file, scheme, token_column, tag_column):
            if isinstance(record, BadRecord):
                raise CoreError("data.bad_record", path=path, line=record.place, problem=record.problem)
            yield record


def conll_records(
    file: Iterable[bytes], scheme: str, token_column: int = 0, tag_column: int = -1
) -> Iterator[tuple[int, Sentence | BadRecord]]:
    """Yield (first line from 1, sentence or `BadRecord`) for each sentence of a file.

    An invalid sentence keeps its number, so the following sentences are numbered as they would be without the error.

    Args:
        file: the lines of the file, with their line ends.
        scheme: name of a scheme of `TAG_SCHEMES`.
        token_column: column of the token, from 0, or from -1 backwards.
        tag_column: column of the tag, counted in the same way.
    """
    document, sentence_id, has_documents = -1, 0, False
    for start_line, rows in _blocks(file, token_column, tag_column):
        if rows is None:
            if document >= 0 and not has_documents:
                problem = f"{DOCUMENT_START} in a file that does not begin with it: add one before the first word"
                yield start_line, BadRecord(start_line, problem)
                continue
            has_documents = True
            document, sentence_id = document + 1, 0
            continue
        if not has_documents:
            document, sentence_id = document + 1, 0
        if isinstance(rows, BadRecord):
            yield start_line, rows
        else:
            yield start_line, _sentence(f"doc-{document}", sentence_id, rows, scheme, start_line)
        sentence_id += 1


_Rows = list[tuple[str, str]]  # (token, tag) of the lines of a sentence, which are consecutive in the file


def _blocks(
    file: Iterable[bytes], token_column: int, tag_column: int
) -> Iterator[tuple[int, _Rows | BadRecord | None]]:
    """Yield (first line, rows or their first error) for each sentence and (line, None) for each start of a document."""
    rows: _Rows = []
    bad: BadRecord | None = None
    start_line = n_columns = 0
    for line, text in numbered_lines(file):
        if isinstance(text, BadRecord):
            start_line = line if not rows and bad is None else start_line
            bad = bad or text
            continue
        text = text.rstrip(_BLANK)
        columns = _SEPARATOR.split(text)
        is_document = columns[0] == DOCUMENT_START
        in_sentence = bool(rows) or bad is not None
        if in_sentence and (not text or is_document):
            yield start_line, bad or rows
            rows, bad, in_sentence = [], None, False
        if is_document:
            yield line, None
        if not text or is_document or (not in_sentence and text.startswith(COMMENT_START)):
            continue
        n_columns = n_columns or len(columns)
        problem = _columns_problem(columns, n_columns, token_column, tag_column)
        # A file with CR line ends is a single line, which could look like a word with many columns.
        if "\r" in text:
            problem = "it contains a carriage return: end lines with LF or CRLF"
        if not in_sentence:
            start_line = line
        if problem:
            bad = bad or BadRecord(line, problem)
        else:
            rows.append((columns[token_column], columns[tag_column]))
    if rows or bad:
        yield start_line, bad or rows


def _columns_problem(columns: list[str], n_columns: int, token_column: int, tag_column: int) -> str | None:
    if not columns[0]:
        return "it begins with a blank, so the token is missing or is white space"
    if len(columns) != n_columns:
        return (
            f"it has {len(columns)} columns, but the line of the first word has {n_columns}: a tag is missing, or a "
            "token contains a blank"
        )
    for name, column in (("token_column", token_column), ("tag_column", tag_column)):
        if not -n_columns <= column < n_columns:
            return f"it has {n_columns} columns, but {name} is {column}"
    if token_column % n_columns == tag_column % n_columns:
        return f"token_column {token_column} and tag_column {tag_column} are the same column of {n_columns}"
    return None


def _sentence(document_id: str, sentence_id: int, rows: _Rows, scheme: str, start_line: int) -> Sentence | BadRecord:
    words = [token for token, _ in rows]
    for line, word in enumerate(words, start=start_line):
        problem = word_problem(word)
        if problem:
            return BadRecord(line, f"token {problem}")
    try:
        entities = tags_to_spans([tag for _, tag in rows], scheme)
    except CoreError as error:
        return BadRecord(start_line + int(str(error.values["word"])), str(error).rstrip("."))
    return Sentence(document_id, sentence_id, words, entities)

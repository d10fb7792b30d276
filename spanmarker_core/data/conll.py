"""The CoNLL reader: one word per line with its tag, and a blank line after each sentence.

    -DOCSTART- -X- -X- O

    Ada      NNP  I-NP  B-PER
    met      VBD  I-VP  O

- Columns are separated by tabs if the first word's line has any, so that words and labels may hold blanks, and
  otherwise by any run of blanks and tabs. Each line has as many columns as the first one.
- A first column that counts 1, 2, 3, ... or 0, 1, 2, ... is an index (GermEval, CoNLL-U), and the words are in the
  second. The count begins again with each sentence, or continues. The numbers may end with a full stop (1.) or follow
  that of the sentence (2-1).
- A first column that repeats one value in whole sentences is refused: it names the sentence or document.
- A line of only blanks and tabs ends a sentence, and so does `-DOCSTART-`.
- `-DOCSTART-` begins a document and is never a word. Documents are doc-0, doc-1, ... in file order. If a
  file does not begin with `-DOCSTART-`, its documents are unknown: each sentence is its own document, so
  that no sentence gets an unrelated one as context. A later `-DOCSTART-` in such a file is an error.
- At the start of a sentence, the comments of several dialects are ignored: `# id ` (MultiCoNER), `# key = value` and
  `# newdoc` (CoNLL-U), `#` and an address (GermEval), `#begin document` (CoNLL-2012). Any other line of `#` and a
  blank is a comment if it has another number of columns than the words, or no tabs where those have tabs. Any other
  `#` is a word.
- Line ends are LF or CRLF and are never part of a tag.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from spanmarker_core.data.blocks import DamagedFile, damage_as_errors, opened, raised
from spanmarker_core.data.lines import numbered_lines
from spanmarker_core.data.records import BadRecord, Sentence, word_problem
from spanmarker_core.errors import CoreError
from spanmarker_core.text.tag_schemes import check_tag_scheme, schemes_of, tags_to_spans

DOCUMENT_START = "-DOCSTART-"
COMMENT = re.compile(
    r"#[ \t]+(?:id |https?://|newdoc\b|newpar\b|[\w.:\[\]-]+[ \t]*=)"
    r"|#(?:begin|end) document\b|#(?:sent_id|text)[ \t]*="
)
_PERHAPS_COMMENT = re.compile(r"#[ \t]")
#: Columns of CoNLL-U, by which a file of ten columns may be addressed.
CONLLU_COLUMNS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")

_GLOBAL_COLUMNS = re.compile(r"#[ \t]*global\.columns[ \t]*=[ \t]*(.*)")
_SEPARATOR, _TABS = re.compile(r"[ \t]+"), re.compile(r"\t+")
_BLANK = " \t"
#: Sentences to read at most before the first column is judged: those of one word look alike with and without an index.
_UNDECIDED = 100
#: A number of an index: 2, 2., or 1-2 for the second word of the first sentence.
_INDEX = re.compile(r"(?:[0-9]+-)?([0-9]{1,9})\.?")
_REPEATED = (
    "the first column holds {value!r} in all lines of the first sentences, so it does not hold the tokens: choose "
    "their column (--token-column)"
)


def read_conll(
    path: str | Path, scheme: str, *, token_column: int | str | None = None, tag_column: int | str | None = None
) -> Iterator[Sentence]:
    """Read a CoNLL file sentence by sentence.

    Args:
        path: the file, which may be compressed.
        scheme: a tag scheme, followed strictly.
        token_column: column of the token, from 0, or from -1 backwards, or by the name that `# global.columns` or
            CoNLL-U gives it; None for the first column that is not an index.
        tag_column: column of the tag, counted or named in the same way; None for the last one.

    Raises:
        CoreError: at once, `call.unknown_option` for an unknown scheme or one without tags; while reading,
            `data.bad_record` with the line of the first error, `data.bad_dataset` for a damaged file.
    """
    return _read(Path(path), check_tag_scheme(scheme), token_column, tag_column)


def _read(path: Path, scheme: str, token_column: int | str | None, tag_column: int | str | None) -> Iterator[Sentence]:
    with damage_as_errors(path), opened(path.open("rb"), path.name) as file:
        for _, record in conll_records(file, scheme, token_column, tag_column):
            if isinstance(record, BadRecord):
                raise CoreError("data.bad_record", path=path, line=record.place, problem=record.problem)
            yield record


def conll_records(
    file: Iterable[bytes],
    scheme: str,
    token_column: int | str | None = None,
    tag_column: int | str | None = None,
    name: str = "doc",
) -> Iterator[tuple[int, Sentence | BadRecord]]:
    """Yield (first line from 1, sentence or `BadRecord`) for each sentence of a file.

    An invalid sentence keeps its number, so the following sentences are numbered as they would be without the error.

    Args:
        file: the lines of the file, with their line ends.
        scheme: name of a scheme of `TAG_SCHEMES`.
        token_column: column of the token; see `read_conll`.
        tag_column: column of the tag.
        name: beginning of the ids of documents; their number follows.

    Raises:
        DamagedFile: the file is damaged; all whole sentences before the damage have been yielded.
    """
    document, sentence_id, has_documents = -1, 0, False
    names: list[str] = []
    blocks, column = _blocks(file, names), None
    if token_column is None:
        blocks, column = _without_index(blocks)
    for start_line, rows in blocks:
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
            token = int(column is not None and column.is_index) if token_column is None else token_column
            pairs = _pairs(rows, token, -1 if tag_column is None else tag_column, names, start_line, column)
            if isinstance(pairs, BadRecord):
                yield start_line, pairs
            else:
                yield start_line, _sentence(f"{name}-{document}", sentence_id, pairs, scheme, start_line)
        sentence_id += 1


def _without_index(blocks: Iterator["_Block"]) -> tuple[Iterator["_Block"], "_FirstColumn"]:
    """Return the blocks, and the content of their first column."""
    held: list[_Block] = []
    first = _FirstColumn()
    try:
        for block in blocks:
            held.append(block)
            if (isinstance(block[1], list) and first.see(block[1])) or len(held) == _UNDECIDED:
                break
    except DamagedFile as error:
        blocks = raised(error)  # behind the sentences before it
    return chain(held, blocks), first


class _FirstColumn:
    """Content of the first column: tokens, an index, or a value that is the same in all lines of a sentence.

    Attributes:
        is_index: whether it is an index.
    """

    def __init__(self) -> None:
        self.is_index, self._decided, self._next = False, False, 0
        self._repeats, self._longer, self._value = True, 0, ""

    @property
    def repeated(self) -> str:
        """The first of the values that are repeated; empty if there are none."""
        return self._value if self._repeats and self._longer > 1 and not self.is_index else ""

    def see(self, rows: "_Rows") -> bool:
        """Take a sentence into account, and return whether no other is needed to judge the column."""
        more = len(rows[0]) > 2  # a token and its tag are two
        if not self._decided:
            start = _number(rows[0][0])
            self.is_index = more and start in (0, 1, self._next) and not self.wrong_line(rows)
            self._next = start + len(rows)
            self._decided = len(rows) > 1 or not self.is_index
        if len(rows) > 1:
            self._repeats = self._repeats and more and len({row[0] for row in rows}) == 1
            self._value = self._value or rows[0][0]
            self._longer += 1
        return self._decided and (self.is_index or not self._repeats or self._longer > 1)

    def wrong_line(self, rows: "_Rows") -> int:
        """Return the line of a sentence, from 0, at which an index does not continue; 0 if it does."""
        numbers = [_number(row[0]) for row in rows]
        return next((at for at, number in enumerate(numbers) if number != numbers[0] + at or number < 0), 0)


def _number(cell: str) -> int:
    """Return the number of a word in an index; -1 for a cell that holds none."""
    found = _INDEX.fullmatch(cell)
    return int(found[1]) if found else -1


def _pairs(
    rows: "_Rows", token: int | str, tag: int | str, names: list[str], start_line: int, column: "_FirstColumn | None"
) -> list[tuple[str, str]] | BadRecord:
    """Return the (token, tag) of each row."""
    n_columns = len(rows[0])
    names = names or (list(CONLLU_COLUMNS) if n_columns == len(CONLLU_COLUMNS) else [])
    chosen = []
    for option, place in (("token_column", token), ("tag_column", tag)):
        if isinstance(place, str) and place.removeprefix("-").isdecimal():
            place = int(place)
        if isinstance(place, str):
            if place not in names[:n_columns]:
                known = ", ".join(names) or "none"
                return BadRecord(start_line, f"no column is named {place} ({option}); named columns: {known}")
            place = names.index(place)
        if not -n_columns <= place < n_columns:
            return BadRecord(start_line, f"it has {n_columns} columns, so none is {option} {place}")
        chosen.append(place % n_columns)
    first, second = chosen
    if first == second and n_columns == 1:
        return BadRecord(start_line, "it has one column, but a token and its tag are two, with a tab or blanks between")
    if first == second:
        problem = f"it has {n_columns} columns: token_column {token} and tag_column {tag} are the same column"
        return BadRecord(start_line, problem)
    if column is not None and column.repeated:
        return BadRecord(start_line, _REPEATED.format(value=column.repeated))
    if column is not None and column.is_index and ((at := column.wrong_line(rows)) or _number(rows[0][0]) < 0):
        problem = f"the first column holds {rows[at][0]!r}, although it counts words in the first sentence: choose the "
        return BadRecord(start_line + at, problem + "column of the tokens (--token-column)")
    return [(row[first], row[second]) for row in rows]


_Rows = list[list[str]]  # the columns of the lines of a sentence, which are consecutive in the file
_Block = tuple[int, _Rows | BadRecord | None]


def _blocks(file: Iterable[bytes], names: list[str]) -> Iterator[_Block]:
    """Yield (first line, rows or their first error) for each sentence and (line, None) for each start of a document.

    Args:
        file: the lines of the file.
        names: receives the names of the columns if the file has them.
    """
    rows: _Rows = []
    bad: BadRecord | None = None
    start_line = n_columns = 0
    tabs = False
    lines = _Ahead(numbered_lines(file))
    for line, text in lines:
        if isinstance(text, BadRecord):
            start_line = line if not rows and bad is None else start_line
            bad = bad or text
            continue
        text = text.rstrip(_BLANK)
        is_document = _SEPARATOR.split(text, maxsplit=1)[0] == DOCUMENT_START
        in_sentence = bool(rows) or bad is not None
        if in_sentence and (not text or is_document):
            yield start_line, bad or rows
            rows, bad, in_sentence = [], None, False
        if is_document:
            yield line, None
        if not text or is_document:
            continue
        if not in_sentence and COMMENT.match(text):
            if named := _GLOBAL_COLUMNS.match(text):
                names[:] = _SEPARATOR.split(named[1])
            continue
        if not n_columns and _PERHAPS_COMMENT.match(text) and (word := lines.first_without(_PERHAPS_COMMENT)):
            tabs = "\t" in word
            n_columns = len(_columns(word, 0, tabs))
        tabs = tabs if n_columns else "\t" in text.lstrip(_BLANK)
        columns = _columns(text, n_columns, tabs)
        other = len(columns) != n_columns or (tabs and "\t" not in text)
        if not in_sentence and other and _PERHAPS_COMMENT.match(text):
            continue
        n_columns = n_columns or len(columns)
        problem = _columns_problem(columns, n_columns)
        if problem and _PERHAPS_COMMENT.match(text):
            problem += ". If it is a comment, it must precede the sentence"
        # A file with CR line ends is a single line, which could look like a word with many columns.
        if "\r" in text:
            problem = "it contains a carriage return: end lines with LF or CRLF"
        if not in_sentence:
            start_line = line
        if problem:
            bad = bad or BadRecord(line, problem)
        else:
            rows.append(columns)
    if rows or bad:
        yield start_line, bad or rows


class _Ahead:
    """Lines, which can be looked at before they are read."""

    def __init__(self, lines: Iterator[tuple[int, str | BadRecord]]) -> None:
        self._lines = _with_damage(lines)
        self._held: deque[tuple[int, str | BadRecord | DamagedFile]] = deque()

    def __iter__(self) -> "_Ahead":
        return self

    def __next__(self) -> tuple[int, str | BadRecord]:
        line, text = self._held.popleft() if self._held else next(self._lines)
        if isinstance(text, DamagedFile):
            raise text
        return line, text

    def first_without(self, pattern: re.Pattern[str]) -> str:
        """Return the next of the first lines that holds columns and does not match; nothing if there is none."""
        while len(self._held) < _UNDECIDED and (found := next(self._lines, None)) is not None:
            self._held.append(found)
            text = found[1]
            if isinstance(text, str) and (text := text.strip(_BLANK)) and not pattern.match(text):
                return "" if text.startswith(DOCUMENT_START) else text
        return ""


def _with_damage(
    lines: Iterator[tuple[int, str | BadRecord]],
) -> Iterator[tuple[int, str | BadRecord | DamagedFile]]:
    """Yield lines, and the damage that ends them, so that looking ahead doesn't raise it."""
    try:
        yield from lines
    except DamagedFile as error:
        yield 0, error


def _columns(text: str, n_columns: int, tabs: bool) -> list[str]:
    """Return the columns of a line: between tabs, or between any blanks if that doesn't give `n_columns`."""
    if tabs and text[0] not in _BLANK:
        columns = [column.strip(_BLANK) for column in _TABS.split(text)]
        if len(columns) == n_columns or not n_columns:
            return columns
    return _SEPARATOR.split(text)


def _columns_problem(columns: list[str], n_columns: int) -> str | None:
    if not columns[0]:
        return "it begins with a blank, so the token is missing or is white space"
    if len(columns) != n_columns:
        return (
            f"it has {len(columns)} columns, but the line of the first word has {n_columns}: a tag is missing, or a "
            "token contains a blank"
        )
    return None


def _sentence(
    document_id: str, sentence_id: int, rows: list[tuple[str, str]], scheme: str, start_line: int
) -> Sentence | BadRecord:
    words = [token for token, _ in rows]
    for line, word in enumerate(words, start=start_line):
        problem = word_problem(word)
        if problem:
            return BadRecord(line, f"token {problem}")
    tags = [tag for _, tag in rows]
    try:
        entities = tags_to_spans(tags, scheme)
    except CoreError as error:
        problem = f"{error.text.rstrip('.')}{schemes_of(tags)}"
        return BadRecord(start_line + int(str(error.values["word"])), problem)
    return Sentence(document_id, sentence_id, words, entities)

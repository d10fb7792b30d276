"""Texts of documents, read from their sources, because outputs contain no texts.

A source may have been removed or changed. A text is returned only if its id and length match the tagged document;
`agrees` then compares it with the entities. Only sources in a documents table are read, and only below folders named by
the user.
"""

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.output.manifest import committed_entry
from pipelines.stages.columns import table_records, values_record
from pipelines.stages.formats import format_named, kind_of
from pipelines.stages.records import Record, Reject, clean
from pipelines.stages.row_groups import parquet_rows
from pipelines.storage import join, local_kind, open_input, resolve
from pipelines.storage.urls import is_local
from pipelines.task import Columns
from pipelines.texts.named import NamedFolders
from schemas.shards import Shard
from spanmarker_core.data.blocks import DamagedFile, content, encoding_of, with_head
from spanmarker_core.data.json_values import is_json_value
from spanmarker_core.data.lines import BOM
from spanmarker_core.errors import CodedError

#: Maximum number of characters of a text.
MAX_CHARACTERS = 50_000_000
#: Maximum number of bytes of a JSON line outside its text, which has up to twelve bytes per character.
_BESIDE = 64 << 20
_KEPT_CHARACTERS = 16_000_000

_GONE = "its source no longer exists: {source}"
_CHANGED = "its source has changed since it was tagged: {source}"
_LATE = "the time limit was reached before its source was read: {source}"
_PLACELESS = "the documents table does not contain its position in {source}"
_LONG = "it is longer than {limit:,} characters"
_UNNAMED = "its source is not in a folder of --sources: {source}"
_WHOLE = "cannot read {kind} from the middle: {source}"
_UNREADABLE = "cannot read its source {source}: {reason}"


@dataclass(frozen=True, slots=True)
class Text:
    """The text of a document, or the reason why it is not available.

    Attributes:
        text: the text, or None.
        problem: explanation for the user; empty if there is a text.
    """

    text: str | None
    problem: str = ""


def agrees(text: str, surfaces: Iterable[tuple[int, int, str]]) -> bool:
    """Return whether all entities are found in a text at their positions.

    Args:
        text: the text.
        surfaces: (char_start, char_end, text) of each entity.

    >>> agrees("Ann in York", [(0, 3, "Ann"), (7, 11, "York")]), agrees("Ann in Yorck", [(7, 12, "York")])
    (True, False)
    """
    return all(0 <= start < end <= len(text) and text[start:end] == surface for start, end, surface in surfaces)


class Sources:
    """Reads texts from their sources and caches some of them.

    Args:
        folder: path of the output folder.
        id_column: column or JSON key of the ids.
        text_column: column or JSON key of the texts.
        named: paths and URLs of the folders that may be read.

    Attributes:
        named: the folders that may be read; if there are none, no text is read and all problems are empty.

    Raises:
        PipelineError: `url.unusable`, for an invalid path or URL in `named`.
    """

    def __init__(self, folder: str, id_column: str, text_column: str, named: Iterable[str]) -> None:
        self._folder, self._columns = folder, Columns(id_column, text_column, make_ids=True)
        self.named = NamedFolders(named)
        self._kept: OrderedDict[tuple[str, int, str], str] = OrderedDict()
        self._lock = threading.Lock()

    def texts(self, documents: list[dict[str, Any]], seconds: float) -> list[Text]:
        """Return the texts of documents, in order.

        Args:
            documents: rows of `documents`, each with its `shard`.
            seconds: time after which no further source is read.
        """
        if not self.named:
            return [Text(None)] * len(documents)
        deadline = time.monotonic() + seconds
        found: dict[int, Text] = {}
        by_source: dict[str, list[int]] = {}
        for place, document in enumerate(documents):
            kept = self._remembered(document)
            problem = self._unread(document)
            if kept is not None or problem:
                found[place] = Text(kept, problem if kept is None else "")
            else:
                by_source.setdefault(document["source"], []).append(place)
        for source, places in by_source.items():
            rows = [documents[place] for place in places]
            for place, text in zip(places, self._of_source(source, rows, deadline), strict=True):
                found[place] = text
                if text.text is not None:
                    self._remember(documents[place], text.text)
        return [found[place] for place in range(len(documents))]

    def _unread(self, document: dict[str, Any]) -> str:
        source = document["source"]
        if document["source_row"] is None:
            return _PLACELESS.format(source=source)
        if document["n_characters"] > MAX_CHARACTERS:
            return _LONG.format(limit=MAX_CHARACTERS)
        return ""

    def _of_source(self, source: str, documents: list[dict[str, Any]], deadline: float) -> list[Text]:
        kind = kind_of(source)
        if kind is None:
            return [Text(None, _PLACELESS.format(source=source))] * len(documents)
        reader = _READERS.get(kind.partition(".")[0])
        if reader is None:
            return [Text(None, _WHOLE.format(kind=format_named(kind).title, source=source))] * len(documents)
        if time.monotonic() > deadline:
            return [Text(None, _LATE.format(source=source))] * len(documents)
        wanted = {document["source_row"]: document for document in documents}
        texts: dict[int, Text] = {}
        problem = _CHANGED.format(source=source)
        try:
            path = self._path(source, documents[0]["shard"])
            for row, document_id, text in reader(path, wanted, self._columns, deadline):
                texts[row] = _checked(wanted[row], document_id, text)
        except FileNotFoundError:
            problem = _GONE.format(source=source)
        except _UnnamedError:
            problem = _UNNAMED.format(source=source)
        except _LateError:
            problem = _LATE.format(source=source)
        except _WholeError as error:
            problem = _WHOLE.format(kind=error, source=source)
        except DamagedFile:
            pass  # Content after the damage differs from the tagged content.
        # Readers raise these for unexpected content, and for files that cannot be opened.
        except (pa.ArrowException, OSError, CodedError, ValueError, KeyError, RecursionError) as error:
            problem = _UNREADABLE.format(source=source, reason=" ".join(str(error).split())[:200])
        missing = Text(None, problem)
        return [texts.get(document["source_row"], missing) for document in documents]

    def _path(self, source: str, shard: str) -> str:
        """Return the path for a table's `source`, in which bytes that are not UTF-8 are escaped."""
        path = source
        if "\\" in source and (entry := committed_entry(self._folder, shard)) is not None:
            paths = [join(entry.source, name) for name in entry.files] or [entry.source]
            path = next((each for each in paths if clean(each) == source), source)
        if not self.named.hold(path):
            raise _UnnamedError
        fs, local = resolve(path)
        if is_local(fs) and local_kind(local)[0] != "file":
            raise FileNotFoundError(path)  # Opening a pipe would block.
        return path

    def _remembered(self, document: dict[str, Any]) -> str | None:
        with self._lock:
            key = _key(document)
            if (text := self._kept.get(key)) is not None:
                self._kept.move_to_end(key)
            return text

    def _remember(self, document: dict[str, Any], text: str) -> None:
        with self._lock:
            self._kept[_key(document)] = text
            while len(self._kept) > 1 and sum(map(len, self._kept.values())) > _KEPT_CHARACTERS:
                self._kept.popitem(last=False)


class _UnnamedError(Exception):
    """The source is not below a folder named by the user."""


class _WholeError(Exception):
    """The content can't be read from the middle; the message names its kind."""


class _LateError(Exception):
    """The time limit is exceeded."""


def _key(document: dict[str, Any]) -> tuple[str, int, str]:
    return document["source"], document["source_row"], document["document_id"]


def _checked(document: dict[str, Any], document_id: Any, text: Any) -> Text:
    same = isinstance(text, str) and isinstance(document_id, str | int) and not isinstance(document_id, bool)
    if same and str(document_id) == document["document_id"] and len(text) == document["n_characters"]:
        return Text(text)
    return Text(None, _CHANGED.format(source=document["source"]))


_Wanted = dict[int, dict[str, Any]]  # source row -> row of `documents`
_Found = Iterator[tuple[int, Any, Any]]  # source row, id, text


def _parquet(path: str, wanted: _Wanted, columns: Columns, deadline: float) -> _Found:
    rows = sorted(wanted)
    with open_input(path) as file:
        metadata = pq.read_metadata(file)
    ends: list[int] = []
    for group in range(metadata.num_row_groups):
        ends.append((ends[-1] if ends else 0) + metadata.row_group(group).num_rows)
    for end in ends:
        # Rows of a row group are read together, because it is decoded from its start.
        here = [row for row in rows if row < end]
        rows = rows[len(here) :]
        if here:
            yield from _parquet_rows(path, here, columns, deadline)


def _parquet_rows(path: str, rows: list[int], columns: Columns, deadline: float) -> _Found:
    shard = Shard("", path, "parquet", rows[0], rows[-1] + 1, (), 0, "")
    for found in parquet_rows(shard, columns.read):
        if time.monotonic() > deadline:
            raise _LateError
        if isinstance(found, Reject):
            raise ValueError(found.message)
        first, batch = found
        for row in rows:
            if first <= row < first + len(batch):
                (record,) = table_records(path, row, batch.slice(row - first, 1), columns)
                if isinstance(record, Record):
                    yield row, _plain(record.document_id), _plain(record.text)


def _plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def _jsonl(path: str, wanted: _Wanted, columns: Columns, deadline: float) -> _Found:
    with open_input(path) as file:
        if encoding_of(file.read(4)) is not None:
            raise _WholeError("UTF-16")
        file.seek(0)
        _refuse_array(file, "jsonl")
        for offset, document in wanted.items():
            if time.monotonic() > deadline:
                raise _LateError
            file.seek(offset)
            yield from _record(path, offset, file.readline(_line_limit(document)), columns)


def _compressed(path: str, wanted: _Wanted, columns: Columns, deadline: float) -> _Found:
    """Read a compressed file up to the last requested line, because it does not support seeking."""
    left = sorted(wanted)
    kind = kind_of(path) or ""
    with open_input(path) as file:
        _refuse_array(file, kind)
        position, line = 0, b""  # `line` is the known beginning of the line left[0]
        for block in content(file, kind):
            if time.monotonic() > deadline:
                raise _LateError
            start = 0
            while left and left[0] < position + len(block):
                start = max(start, left[0] - position)
                stop = block.find(b"\n", start)
                line += block[start : len(block) if stop < 0 else stop]
                if stop < 0:
                    if len(line) > _line_limit(wanted[left[0]]):
                        return
                    break
                yield from _record(path, left.pop(0), line, columns)
                start, line = stop, b""
            if not left:
                return
            position += len(block)
        if line:
            yield from _record(path, left[0], line, columns)


def _refuse_array(file: IO[bytes], kind: str) -> None:
    """Raise an error if places in a file are numbers of elements, not byte offsets."""
    if is_json_value(with_head(content(file, kind))[0]):
        raise _WholeError("a JSON array")


def _line_limit(document: dict[str, Any]) -> int:
    return _BESIDE + 12 * int(document["n_characters"])


def _record(path: str, offset: int, line: bytes, columns: Columns) -> _Found:
    try:
        values = json.loads(line.removeprefix(BOM) if offset == 0 else line)
        record = values_record(path, offset, line, values, columns)
        if isinstance(record, Record):
            yield offset, record.document_id, record.text
    except (ValueError, KeyError, TypeError, RecursionError):
        return  # The file has changed.


def _text(path: str, wanted: _Wanted, columns: Columns, deadline: float) -> _Found:
    for row, document in wanted.items():
        limit = 4 * document["n_characters"] + len(BOM)
        with open_input(path) as file:
            text, _ = with_head(content(file, kind_of(path) or ""), limit + 1)
        if len(text) <= limit:
            yield row, document["document_id"], text.removeprefix(BOM).decode()


def _lines(path: str, wanted: _Wanted, columns: Columns, deadline: float) -> _Found:
    return (_jsonl if kind_of(path) == "jsonl" else _compressed)(path, wanted, columns, deadline)


_READERS = {"parquet": _parquet, "jsonl": _lines, "text": _text}

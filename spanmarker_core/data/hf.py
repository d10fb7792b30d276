"""The reader of folders saved by `datasets.Dataset.save_to_disk`.

Columns: `tokens` (a list of strings) and either `ner_tags` (a list of ClassLabel or of strings, read
with the given scheme) or `entities` (a list of {start, end, label}, word ranges with an exclusive end).
If both `document_id` and `sentence_id` are present, they define the documents; without them each row is
its own document, doc-0, doc-1, ... Other columns are ignored.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from spanmarker_core.data.records import (
    BadRecord,
    DocumentOrder,
    RecordProblem,
    Sentence,
    Span,
    check_annotation,
    check_entities,
    check_words,
)
from spanmarker_core.errors import CoreError, plain
from spanmarker_core.text.tag_schemes import SCHEMES, TAG_SCHEMES, scheme_called, schemes_of, tags_to_spans

TAGS, ENTITIES = "ner_tags", "entities"


def is_dataset_folder(path: Path) -> bool:
    """Return whether a folder was saved by `datasets`, as a data set or a dictionary of splits.

    Args:
        path: the folder.
    """
    return (path / "state.json").is_file() or (path / "dataset_dict.json").is_file()


def read_dataset_folder(path: str | Path, scheme: str | None = None) -> Iterator[Sentence]:
    """Read a saved data set row by row.

    Args:
        path: the folder.
        scheme: scheme of `ner_tags`; None or "spans" reads `entities`.

    Raises:
        CoreError: at once, `call.unknown_option`, `data.bad_dataset`, `data.empty`, `data.scheme_needed`,
            `data.scheme_mismatch`; while reading, `data.bad_row` at the first invalid row.
    """
    return _strict(Path(path), dataset_records(path, scheme))


def dataset_records(path: str | Path, scheme: str | None = None) -> Iterator[Sentence | BadRecord]:
    """Yield each row as a sentence, without checking its entities against its words, or as a `BadRecord`.

    Args:
        path: the folder.
        scheme: scheme of `ner_tags`; None or "spans" reads `entities`.

    Raises:
        CoreError: at once, `call.unknown_option`, `data.bad_dataset`, `data.empty`, `data.scheme_needed`,
            `data.scheme_mismatch`.
    """
    path = Path(path)
    if (path / "dataset_dict.json").is_file():
        raise CoreError(
            "data.bad_dataset",
            path=path,
            problem="it contains several splits: pass the folder of one, such as train/",
        )
    dataset = _load(path)
    columns = dataset.features
    if "tokens" not in columns:
        raise CoreError("data.bad_dataset", path=path, problem=f"it has no tokens column, only {list(columns)}")
    scheme = scheme_called(scheme) if scheme is not None else None
    source = _annotation_column(path, set(columns), scheme)
    ids = [name for name in ("document_id", "sentence_id") if name in columns]
    if len(ids) == 1:
        problem = f"it has {ids[0]} only: add both document_id and sentence_id, or neither"
        raise CoreError("data.bad_dataset", path=path, problem=problem)
    names = _names(path, columns[source], source)
    return _read(dataset.select_columns(["tokens", source, *ids]), scheme, names)


def _load(path: Path) -> Any:
    # Imported here because it is slow and only needed for this format.
    from datasets import load_from_disk

    try:
        return load_from_disk(str(path))
    except IndexError as error:  # `datasets` does not write a table for a data set without rows, then fails to find it
        raise CoreError("data.empty", path=path) from error
    except (OSError, ValueError, KeyError) as error:
        problem = f"`datasets` cannot load it ({error})"
        raise CoreError("data.bad_dataset", path=path, problem=problem) from error


def _annotation_column(path: Path, columns: set[str], scheme: str | None) -> str:
    if TAGS not in columns and ENTITIES not in columns:
        problem = f"it has neither {TAGS} nor {ENTITIES}, only {sorted(columns)}"
        raise CoreError("data.bad_dataset", path=path, problem=problem)
    if scheme is None and TAGS in columns:
        choices = SCHEMES if ENTITIES in columns else TAG_SCHEMES
        raise CoreError("data.scheme_needed", path=path, likely="", schemes=", ".join(choices))
    source = TAGS if scheme in TAG_SCHEMES else ENTITIES
    if source not in columns:
        holds, schemes = ("spans", "spans") if source == TAGS else ("tags", ", ".join(TAG_SCHEMES))
        raise CoreError("data.scheme_mismatch", path=path, holds=holds, scheme=scheme, schemes=schemes)
    return source


def _names(path: Path, feature: Any, source: str) -> list[str] | None:
    """Return the names of a ClassLabel, or None if the column holds strings."""
    item = _item(feature)
    if source == ENTITIES:
        if not isinstance(item, Mapping) or not {"start", "end", "label"} <= set(item):
            problem = f"{ENTITIES} is {feature}, not a list of {{start, end, label}}"
            raise CoreError("data.bad_dataset", path=path, problem=problem)
        item = item["label"]
    names = getattr(item, "names", None)
    if names is None and getattr(item, "dtype", None) not in ("string", "large_string"):
        problem = f"the labels of {source} are {item}, not strings or a ClassLabel with names: cast the column"
        raise CoreError("data.bad_dataset", path=path, problem=problem)
    return names


def _item(feature: Any) -> Any:
    """Return the feature of a list's items; versions of `datasets` represent lists in two ways."""
    return feature[0] if isinstance(feature, list) else getattr(feature, "feature", None)


def _strict(path: Path, records: Iterator[Sentence | BadRecord]) -> Iterator[Sentence]:
    for row, record in enumerate(records):
        try:
            if isinstance(record, BadRecord):
                raise RecordProblem(record.problem)
            yield check_entities(record)
        except RecordProblem as error:
            raise CoreError("data.bad_row", path=path, row=row, problem=str(error)) from error


def _read(rows: Any, scheme: str | None, names: list[str] | None) -> Iterator[Sentence | BadRecord]:
    order = DocumentOrder()
    for index, row in enumerate(rows):
        try:
            yield _sentence(row, index, scheme, names, order)
        except (RecordProblem, CoreError) as error:
            yield BadRecord(index, str(plain(error)).rstrip("."))


def _sentence(
    row: dict[str, Any], index: int, scheme: str | None, names: list[str] | None, order: DocumentOrder
) -> Sentence:
    words = check_words(row["tokens"])
    if TAGS in row:
        entities = _from_tags(row[TAGS], len(words), str(scheme), names)
    else:
        entities = [
            check_annotation(entity["start"], entity["end"], _name(entity["label"], names))
            for entity in row[ENTITIES] or []
        ]
    if "document_id" not in row:
        return Sentence(f"doc-{index}", 0, words, entities)
    # span_marker's own data sets use numbers here.
    document = row["document_id"]
    document = str(document) if type(document) is int else document
    document_id, sentence_id = order.check(document, row["sentence_id"])
    return Sentence(document_id, sentence_id, words, entities)


def _from_tags(tags: list[Any] | None, n_words: int, scheme: str, names: list[str] | None) -> list[Span]:
    if tags is None or len(tags) != n_words:
        raise RecordProblem(f"it has {n_words} tokens but {len(tags or [])} tags")
    return read_tags([_name(tag, names) for tag in tags], scheme)


def read_tags(tags: list[Any], scheme: str) -> list[Span]:
    """Convert the tags of a row to spans.

    Args:
        tags: one tag per word.
        scheme: name of a scheme of `TAG_SCHEMES`.

    Raises:
        RecordProblem: the scheme forbids them; the message says which schemes allow them.
    """
    try:
        return tags_to_spans(tags, scheme)
    except CoreError as error:
        raise RecordProblem(f"{error.text.rstrip('.')}{schemes_of(tags)}") from error


def _name(value: Any, names: list[str] | None) -> Any:
    if names is None:
        return value
    if type(value) is not int or not 0 <= value < len(names):
        raise RecordProblem(f"{value!r} is not a number of one of the labels {names}")
    return names[value]

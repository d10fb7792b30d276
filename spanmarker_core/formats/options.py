"""Inputs and options of readers and writers."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, BinaryIO, Literal

from spanmarker_core.errors import CoreError

#: What to do with an entity that the target cannot hold beside others: raise an error, or keep the longest entities, or
#: those that begin first, and count the others.
Flatten = Literal["refuse", "longest", "first"]
FLATTEN: tuple[Flatten, ...] = ("refuse", "longest", "first")

#: Keys of ids and texts if the user names none.
DEFAULT_ID, DEFAULT_TEXT = "id", "text"


@dataclass(frozen=True, slots=True)
class Source:
    """A file or folder to read.

    Attributes:
        path: its path; a URL if `open` opens URLs.
        open: opens the file at a path for reading.
        name: beginning of the ids that are made for documents without one; the number of the record follows.
    """

    path: str
    open: Callable[[str], BinaryIO]
    name: str = "doc"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of readers.

    Attributes:
        scheme: name of a tag scheme, for data with tags.
        token_column: CoNLL: column of the words, by number or name; None for the first that isn't an index.
        tag_column: CoNLL: column of the tags, by number or name; None for the last.
        id_column: JSON and Parquet: key or column of the ids of documents, which all must have; None for `id`, which is
            optional.
        text_column: JSON and Parquet: key or column of their texts.
        flatten: what to do with entities of several parts.
        left_out: receives the number of entities and documents that were left out, by reason.
    """

    scheme: str | None = None
    token_column: int | str | None = None
    tag_column: int | str | None = None
    id_column: str | None = None
    text_column: str = DEFAULT_TEXT
    flatten: Flatten = "refuse"
    left_out: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options of writers.

    Attributes:
        scheme: name of a tag scheme, for formats with tags.
        flatten: what to do with entities that the format cannot hold.
        language: ISO 639 code of the texts, to split those without sentences.
        predicted: whether a model made the entities. False means that entities with scores are predictions.
    """

    scheme: str = "IOB2"
    flatten: Flatten = "refuse"
    language: str = "en"
    predicted: bool = False


def check_flatten(value: str) -> Flatten:
    """Return a choice of what to do with entities that a format can't hold.

    Args:
        value: its name.

    Raises:
        CoreError: `call.unknown_option`.
    """
    for known in FLATTEN:
        if known == value:
            return known
    raise CoreError("call.unknown_option", option="--flatten", value=value, choices=", ".join(FLATTEN))


def optional_module(name: str, extra: str) -> Any:
    """Import a library that belongs to an extra.

    Args:
        name: module to import.
        extra: the extra of this package that installs it.

    Raises:
        CoreError: `format.not_installed`.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise CoreError("format.not_installed", library=name, extra=extra, reason=error) from error

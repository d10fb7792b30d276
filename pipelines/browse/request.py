"""Parsing and validation of query strings. They refer to shards and row numbers, never to paths."""

import math
import re
from urllib.parse import parse_qsl, urlencode

from pipelines.browse.catalogue import Catalogue
from pipelines.browse.error_pages import bad_request, not_found
from pipelines.browse.query import RowPosition

#: Maximum number of characters of a search text.
MAX_TEXT = 1000
_MAX_FIELDS = 20
_NUMBER = re.compile(r"[0-9]{1,15}")


class PageRequest:
    """The validated fields of a query string.

    Args:
        query: the query string of a URL.

    Raises:
        PageError: from the constructor or from a method, for an invalid field.
    """

    def __init__(self, query: str) -> None:
        try:
            pairs = parse_qsl(query, keep_blank_values=True, errors="replace", max_num_fields=_MAX_FIELDS)
        except ValueError:
            raise bad_request(f"An address can have at most {_MAX_FIELDS} fields.") from None
        self._fields = dict(pairs)
        if len(self._fields) < len(pairs):
            raise bad_request("A field occurs twice.")

    def text(self, name: str) -> str:
        """Return a field without surrounding whitespace; empty if it is missing.

        Args:
            name: name of the field.
        """
        return self._fields.get(name, "").strip()

    def searched(self, name: str) -> str:
        """Return the search text in a field.

        Args:
            name: name of the field.
        """
        text = self.text(name)
        if len(text) > MAX_TEXT:
            raise bad_request(f"The search text can have at most {MAX_TEXT:,} characters.")
        return text

    def exactly(self, name: str) -> str:
        """Return a field unchanged; empty if it is missing.

        Args:
            name: name of the field.
        """
        return self._fields.get(name, "")

    def flag(self, name: str) -> bool:
        """Return whether a field is present and not empty.

        Args:
            name: name of the field.
        """
        return bool(self.text(name))

    def one_of(self, name: str, choices: dict[str, str], default: str) -> str:
        """Return a field with a limited set of values.

        Args:
            name: name of the field.
            choices: the valid values, as keys.
            default: value of a missing or empty field.
        """
        value = self.text(name) or default
        if value not in choices:
            raise bad_request(f"{name} is not one of {', '.join(choices)}.")
        return value

    def share(self, name: str) -> float | None:
        """Return a number from 0 to 1; None if the field is missing or empty.

        Args:
            name: name of the field.
        """
        text = self.text(name)
        if not text:
            return None
        try:
            number = float(text.replace(",", "."))
        except ValueError:
            number = math.nan
        if not 0 <= number <= 1:
            raise bad_request(f"{text[:40]!r} is not a score: scores are numbers from 0 to 1.")
        return number

    def count(self, name: str) -> int | None:
        """Return a non-negative integer; None if the field is missing or empty.

        Args:
            name: name of the field.
        """
        text = self.text(name)
        if text and not _NUMBER.fullmatch(text):
            raise bad_request(f"{name} is not a number.")
        return int(text) if text else None

    def shard(self, catalogue: Catalogue) -> str:
        """Return the name of a finished shard from the field `shard`.

        Args:
            catalogue: the finished shards.
        """
        return _known(self.text("shard"), catalogue)

    def position(self, name: str, catalogue: Catalogue) -> RowPosition | None:
        """Return a position in a finished shard from `format_position`; None if the field is missing or empty.

        Args:
            name: name of the field.
            catalogue: the finished shards.
        """
        text = self.text(name)
        if not text:
            return None
        shard, _, row = text.partition(":")
        if not _NUMBER.fullmatch(row.removeprefix("-")) or int(row) < -1:
            raise bad_request(f"{name} is not a row position.")
        return RowPosition(_known(shard, catalogue), int(row))


def _known(shard: str, catalogue: Catalogue) -> str:
    if catalogue.number_of(shard) is None:
        raise not_found("No finished shard has this name. A run may have replaced it since: search again.")
    return shard


def format_position(position: RowPosition) -> str:
    """Return a position in the format used in URLs.

    Args:
        position: the position.

    >>> format_position(RowPosition("a-00000-0123456789abcdef", 7))
    'a-00000-0123456789abcdef:7'
    """
    return f"{position.shard}:{position.row}"


def address(path: str, **fields: object) -> str:
    """Return a relative URL with all fields that are not empty.

    Args:
        path: path of the URL.
        fields: fields of the query string.

    >>> address("/", q="R&D", least=0.5, label="", count=None, row=0)
    '/?q=R%26D&least=0.5&row=0'
    """
    given = {name: value for name, value in fields.items() if value is not None and value != ""}
    return path + ("?" + urlencode(given, errors="replace") if given else "")

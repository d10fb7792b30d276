"""Parts that the tables of both formats share: their interface, their errors and the stores that they are in."""

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Protocol

import pyarrow as pa

from pipelines.errors import PipelineError
from pipelines.output.manifest import is_shard_name
from pipelines.storage.options import options_for
from spanmarker_core.errors import CodedError


class SnapshotTable(Protocol):
    """A table of an output in one format. The caller holds the lock of the output.

    Attributes:
        columns: names and types of the columns, as `described_columns` has them; "" if there is no table.
        files: the files that the current snapshot names: size in bytes by shard.
    """

    columns: str
    files: dict[str, int]

    def commit(
        self, schema: pa.Schema | None, added: Collection[str], removed: Collection[str], properties: Mapping[str, str]
    ) -> None:
        """Publish one snapshot more, and create the table if there is none.

        Args:
            schema: columns of the table; None if the table exists and gets no files.
            added: shards whose files the snapshot names for the first time, or with another size than before.
            removed: shards whose files it no longer names; none of them is in `added`.
            properties: properties of the snapshot.

        Raises:
            PipelineError: `snapshot.not_committed`.
        """


class Format(Protocol):
    """A module of this package."""

    def check(self, output: str) -> None:
        """Check that a table of this format can be in an output.

        Args:
            output: the output folder.

        Raises:
            PipelineError: `snapshot.no_store`, `snapshot.no_catalogue`.
        """

    def open_tables(self, output: str, names: Iterable[str]) -> dict[str, SnapshotTable]:
        """Return the tables of an output by name, including those that do not exist yet.

        Args:
            output: the output folder, whose lock is held.
            names: names of the tables.

        Raises:
            PipelineError: `snapshot.foreign`, `snapshot.not_readable`.
        """


def described_columns(schema: pa.Schema) -> str:
    """Return the names and types of columns, for comparison.

    Args:
        schema: the columns.
    """
    return ", ".join(f"{field.name}: {field.type}{'' if field.nullable else ' not null'}" for field in schema)


def shard_of(path: str, folder: str, location: str) -> str:
    """Return the shard of a file that a snapshot names.

    Args:
        path: path of the file, as the snapshot has it.
        folder: the folder in which the files of this table are, with an ending slash; "" for relative paths.
        location: the table, for the error.

    Raises:
        PipelineError: `snapshot.foreign`, for a file that is not of this output.
    """
    shard = path.removeprefix(folder).removesuffix(".parquet")
    if path != f"{folder}{shard}.parquet" or not is_shard_name(shard):
        raise PipelineError("snapshot.foreign", path=location, reason=f"it has the file {path}")
    return shard


def described(schema: pa.Schema, key: str) -> pa.Schema:
    """Return a schema in which only the description of each column is left of all metadata.

    Args:
        schema: the columns.
        key: the metadata key under which the format has descriptions.
    """
    return pa.schema(field.with_metadata({key: (field.metadata or {}).get(b"description", b"")}) for field in schema)


def s3_settings() -> dict[str, str]:
    """Return the settings of S3 that fsspec's options and configuration give: endpoint, region, key, secret and token.

    The libraries read the environment of AWS themselves, except for the endpoint.
    """
    options = options_for("s3")
    client = options.get("client_kwargs") or {}
    environment = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    found = {
        "endpoint": options.get("endpoint_url") or client.get("endpoint_url") or environment,
        "region": client.get("region_name"),
        "key": options.get("key"),
        "secret": options.get("secret"),
        "token": options.get("token"),
    }
    return {name: str(value) for name, value in found.items() if value}


def check_store(output: str) -> None:
    """Check that the libraries can reach an output.

    Args:
        output: the output folder.

    Raises:
        PipelineError: `snapshot.no_store`, unless it is local or in S3, and its name is the same in a URL.
    """
    protocol, mark, _ = output.partition("://")
    if mark and protocol not in ("s3", "s3a"):
        raise PipelineError("snapshot.no_store", path=output, reason=f"{protocol!r} is not a store that they can be in")
    if any(character in output for character in "#?%"):
        raise PipelineError("snapshot.no_store", path=output, reason="its name has a character that URLs use (#, ?, %)")


@contextlib.contextmanager
def library_errors(code: str, path: str) -> Iterator[None]:
    """Turn errors of a library into coded errors; the libraries have no common base class of their own.

    Args:
        code: code of the error.
        path: the table.

    Raises:
        PipelineError: an error with that code.
    """
    try:
        yield
    except CodedError:
        raise
    except Exception as error:
        raise PipelineError(code, path=path, reason=error) from error

"""The plan file, `plan.jsonl`: a header line with the job's identity, then one line per `Shard`."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import IO

from pipelines.errors import PipelineError
from pipelines.output.digest_set import DigestSet, Sizes, chunks
from pipelines.storage import open_input, publish, writing
from schemas.shards import PLAN_VERSION, Shard

_FIELDS = [field.name for field in fields(Shard)]


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan in memory, at sixteen bytes per shard.

    Attributes:
        sizes: size in bytes of each shard, by name.
    """

    sizes: Sizes

    @property
    def names(self) -> DigestSet:
        """Names of the shards."""
        return self.sizes.names

    def left(self, done: DigestSet) -> tuple[int, int]:
        """Return the number of pending shards and their size in bytes.

        Args:
            done: the finished shards.
        """
        open_ = ~done.mask(self.names.keys)
        return int(open_.sum()), int(self.sizes.sizes[open_].sum())


def save_plan(path: str, shards: Iterable[Shard], identity: dict[str, str]) -> Planned:
    """Write a plan while it is made; the file appears when it is complete.

    Memory holds the result and one batch of shards.

    Args:
        path: path or URL of the plan file.
        shards: the plan.
        identity: identity of the job.

    Raises:
        PipelineError: `output.not_writable`.
    """
    with publish(path) as file:
        with writing(path):
            header = json.dumps({"plan_version": PLAN_VERSION, "job": identity}, ensure_ascii=False)
            file.write(f"{header}\n".encode("utf-8", "surrogateescape"))
        return Planned(Sizes.of(save_shards(file, path, shards)))


def save_shards(file: IO[bytes], path: str, shards: Iterable[Shard]) -> Iterator[tuple[str, int]]:
    """Write shards, one per line; yield their names and sizes in bytes as they are written.

    Args:
        file: the open file.
        path: where the file will be published, for error messages.
        shards: the shards.

    Raises:
        PipelineError: `output.not_writable`.
    """
    for chunk in chunks(shards):
        with writing(path):
            file.write(b"".join(map(line_of, chunk)))
        yield from ((shard.name, shard.n_bytes) for shard in chunk)


def line_of(shard: Shard) -> bytes:
    """Return a shard as a line of JSON in ASCII, so that any program can pass on names that are not valid Unicode.

    Args:
        shard: the shard.
    """
    values = {name: getattr(shard, name) for name in _FIELDS}
    for name in ("reason", "limit"):  # Earlier versions do not know these fields.
        if not values[name]:
            del values[name]
    return json.dumps(values).encode() + b"\n"


def shard_of(line: bytes) -> Shard:
    """Return the shard on a line of a plan.

    Args:
        line: a line of JSON.
    """
    values = json.loads(line.decode("utf-8", "surrogateescape"))
    return Shard(**values | {"files": tuple(values["files"])})


def read_plan(path: str) -> Iterator[Shard]:
    """Yield the shards of a saved plan.

    Args:
        path: path or URL of the plan file.

    Raises:
        PipelineError: `plan.other_version`; `output.damaged` if the file is not a plan; `output.not_readable`.
    """
    try:
        with open_input(path) as file:
            _identity_in(file.readline(), path)
            yield from map(shard_of, file)
    except OSError as error:
        raise PipelineError("output.not_readable", path=path, reason=error) from error
    except (ValueError, KeyError, TypeError) as error:
        raise PipelineError("output.damaged", path=path, reason=error) from error


def plan_identity(path: str) -> dict[str, str]:
    """Return the identity of the job of a saved plan.

    Args:
        path: path or URL of the plan file.

    Raises:
        PipelineError: `plan.other_version`; `output.damaged` if the file is not a plan; `output.not_readable`.
    """
    try:
        with open_input(path) as file:
            return _identity_in(file.readline(), path)
    except OSError as error:
        raise PipelineError("output.not_readable", path=path, reason=error) from error
    except (ValueError, KeyError) as error:
        raise PipelineError("output.damaged", path=path, reason=error) from error


def _identity_in(line: bytes, path: str) -> dict[str, str]:
    header = json.loads(line)
    if not isinstance(header, dict) or not isinstance(version := header.get("plan_version"), int):
        raise ValueError("it does not begin with the header of a plan")
    if version != PLAN_VERSION:
        raise PipelineError("plan.other_version", path=path, there=version, here=PLAN_VERSION)
    identity: dict[str, str] = header["job"]
    return identity

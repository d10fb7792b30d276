"""The log of `--log-json`: one JSON object per line, with `time` (UTC), `event` and the fields of the event.

    run.started    job (names of storage options, no values), identity, versions
    workers.started  machine
    shard.skipped  shard, source, reason: it was done before
    shard.queued   shard, source, reason: an engine takes it
    shard.retried  shard, reason
    shard.done     shard, worker, counts, seconds (by stage)
    shard.failed   shard, reason; the first 100 that failed permanently
    run.progress   every 30 seconds: the fields of `pipelines.output.progress_file.RunState`
    run.warning    code, message: of a fault that the run survives
    run.finished   reason (done, nothing to do), and numbers of shards
    run.failed     code, message, exit_code

Lines are ASCII. A lone surrogate in a name, which is not valid Unicode, is written as the characters \\\\udcff.
"""

import json
import os
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from types import TracebackType
from typing import IO, Any

from pipelines.engines import Listener
from pipelines.errors import PipelineError, exit_code
from pipelines.output.progress_file import RunState
from pipelines.storage import absolute, writing
from schemas.manifest import Entry
from spanmarker_core.errors import CodedError

_EVENTS = (
    "run.started",
    "workers.started",
    "shard.skipped",
    "shard.queued",
    "shard.retried",
    "shard.done",
    "shard.failed",
    "run.progress",
    "run.warning",
    "run.finished",
    "run.failed",
)
#: Maximum size in bytes of the first line, which contains the job with all inputs.
_MAX_LINE = 1 << 24


def is_log(file: IO[bytes]) -> bool:
    """Return whether a file begins with a line written by `JsonLog`.

    Args:
        file: a file, opened for reading.
    """
    try:
        first = json.loads(file.readline(_MAX_LINE))
    except (ValueError, RecursionError):
        return False
    return isinstance(first, dict) and list(first)[:2] == ["time", "event"] and first["event"] in _EVENTS


class JsonLog(Listener):
    """A listener of engine events that appends to a log file. Each line is written immediately.

    Shards that failed permanently are taken from the error that ends the run.

    Args:
        path: a local file; "-" is standard error; None disables the log.

    Raises:
        PipelineError: `output.not_writable`, from every method that writes.
    """

    def __init__(self, path: str | None) -> None:
        self.path = path
        self._file: IO[bytes] | None = None

    def __enter__(self) -> "JsonLog":
        if self.path == "-":
            self._file = sys.stderr.buffer
        elif self.path is not None:
            url = absolute(self.path)
            if "://" in url:
                raise PipelineError(
                    "output.not_writable", path=self.path, reason="a log is appended to, which stores do not support"
                )
            with writing(self.path):
                os.makedirs(os.path.dirname(url), exist_ok=True)
                self._file = open(url, "ab", buffering=0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is not None:
                self._failed(error)
        except PipelineError:
            if error is None or (isinstance(error, CodedError) and error.code == "output.not_writable"):
                raise
        finally:
            if self._file is not None and self.path != "-":
                self._file.close()

    @property
    def active(self) -> bool:
        """Return whether the log is enabled."""
        return self._file is not None

    def event(self, event: str, **fields: Any) -> None:
        """Write a line.

        Args:
            event: name of the event.
            fields: further fields of the line.
        """
        if self._file is None:
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps(_plain({"time": now, "event": event, **fields}), allow_nan=False)
        with writing(self.path or ""):
            self._file.write(line.encode("ascii") + b"\n")
            self._file.flush()

    def started(self, facts: dict[str, str]) -> None:
        """Log the description of the workers' environment.

        Args:
            facts: device, dtype, batch sizes.
        """
        self.event("workers.started", machine=facts)

    def finished(self, entry: Entry, n_bytes: int, worker: str) -> None:
        """Log a committed shard.

        Args:
            entry: manifest entry of the shard.
            n_bytes: planned size in bytes; unused.
            worker: name of the worker.
        """
        self.event("shard.done", shard=entry.shard, worker=worker, counts=entry.counts, seconds=entry.seconds)

    def retried(self, shard: str, reason: str) -> None:
        """Log a failed attempt that will be repeated.

        Args:
            shard: name of the shard.
            reason: why the attempt failed.
        """
        self.event("shard.retried", shard=shard, reason=reason)

    def progress(self, state: RunState) -> None:
        """Log the progress of the run. It may be called from another thread.

        Args:
            state: how far the run is.
        """
        self.event("run.progress", **asdict(state))

    def _failed(self, error: BaseException) -> None:
        for shard, reason in getattr(error, "failed", {}).items():
            self.event("shard.failed", shard=shard, reason=reason)
        code = error.code if isinstance(error, CodedError) else type(error).__name__
        message = " ".join(getattr(error, "__notes__", ())) or str(error) or code
        self.event("run.failed", code=code, message=message, exit_code=exit_code(error))


def _plain(value: Any) -> Any:
    """Return a value that every JSON parser accepts: no lone surrogates, and only strings as keys."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_plain(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value

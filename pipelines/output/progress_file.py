"""The file `progress.json` of an output: how far the run is that writes there, or why the last one ended early.

A run writes it every 15 seconds, and removes it when it has finished.
"""

import contextlib
import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from pipelines.storage import exists, join, publish_bytes, read_all, remove

PROGRESS = "progress.json"


@dataclass(frozen=True, slots=True)
class RunState:
    """How far a run is. Shards and bytes are those that were pending when it started.

    Attributes:
        started: time of its start, ISO 8601.
        updated: time at which this was true, ISO 8601.
        planned_shards: number of shards to process.
        done_shards: number of shards committed.
        planned_bytes: their size in bytes of text, as planned.
        done_bytes: bytes of text processed, unfinished shards included.
        documents: documents processed.
        words: words processed.
        entities: entities found, including those of unfinished documents.
        rejects: rejected documents, and parts of files that could not be read.
        words_per_second: average speed; 0 before the first words.
        eta_s: estimated seconds to the end; None if nothing is known yet.
        last_failure: shard and reason of the last failed attempt; "" if none failed.
        error: code and message of the error that ended the run; "" while it is running.
    """

    started: str
    updated: str
    planned_shards: int
    done_shards: int
    planned_bytes: int
    done_bytes: int
    documents: int
    words: int
    entities: int
    rejects: int
    words_per_second: float
    eta_s: float | None
    last_failure: str = ""
    error: str = ""


def now() -> str:
    """Return the current time, ISO 8601, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def write_state(output: str, state: RunState) -> None:
    """Write the state of a run. The caller holds the lock of the output.

    Args:
        output: the output folder.
        state: the state.

    Raises:
        PipelineError: `output.not_writable`.
    """
    publish_bytes(join(output, PROGRESS), json.dumps(asdict(state), indent=1).encode() + b"\n")


def remove_state(output: str) -> None:
    """Remove the state of a run that has finished. The caller holds the lock of the output.

    Args:
        output: the output folder.
    """
    remove(join(output, PROGRESS))


def read_state(output: str) -> RunState | None:
    """Return the state of the running run, or of the last one that ended early; None if there is none.

    Args:
        output: the output folder.
    """
    path = join(output, PROGRESS)
    with contextlib.suppress(OSError, ValueError, TypeError):
        if exists(path):
            return RunState(**json.loads(read_all([path])[0]))
    return None

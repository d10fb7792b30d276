"""What every engine runs in a worker process: the model, loaded once, and attempts at shards.

An engine calls `prepare_process` before anything imports torch, and then `attempt` for each shard. What can
come of an attempt is a value (`Outcome`), so that engines need not agree with each other on exceptions.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pipelines.errors import PipelineError, describe
from pipelines.output.manifest import finished_entry
from pipelines.processes.exit_codes import EXIT_MEMORY, EXIT_STUCK
from pipelines.processes.memory import rss_bytes
from pipelines.shards.model import LOAD_SECONDS, model_for
from pipelines.task import AnnotatedTask, TagTask, Task
from schemas.manifest import Entry
from schemas.shards import Shard
from spanmarker_core.errors import CodedError

if TYPE_CHECKING:
    pass

_WATCH_SECONDS = 0.5

#: One shard at a time in a process: a model's threads and buffers are made for one.
_busy = threading.Lock()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an attempt at a shard.

    `kind` and `value`: "done" with the committed Entry; "failed" with the reason, and another try may help;
    "changed" with the reason, and another try would find the same; "broken" with the reason: the model fails on
    anything, so the process should be replaced before the shard is tried again; "fault" with the CodedError that
    ends the job.
    """

    kind: Literal["done", "failed", "changed", "broken", "fault"]
    value: Entry | CodedError | str


def _loaded(task: Task) -> Any:
    with _watched("loading the model", LOAD_SECONDS):
        return model_for(task)


def facts(task: Task) -> dict[str, str]:
    """Return what the loaded model runs on, for the first line of a run. Ends the process if it takes too long to load.

    Raises:
        CodedError: as `model_for`.
    """
    with _busy:
        model = _loaded(task)
    if not isinstance(task, TagTask):
        return {"device": "cpu"}

    from spanmarker_core.bundle.config import describe_gate
    from spanmarker_core.inference.tagger import BATCH_TOKENS

    return {
        "device": str(model.device),
        "dtype": task.dtype,
        "gate": describe_gate(model.gate_threshold),
        "batches": f"up to {BATCH_TOKENS[model.device.type]} text tokens, windows of like length together",
    }


def attempt(
    shard: Shard, task: Task, progress: Callable[[int, int, int], None] | None = None, careful: bool = False
) -> Outcome:
    """Try to do one shard; see `Outcome`. Ends the process if that takes too long or too much memory.

    Args:
        shard: what to do.
        task: how.
        progress: called now and then with documents, words and bytes of text since the last call.
        careful: whether to reject the documents that end a process, as on the last attempt: see `careful`. Time is then
            limited for each step of the work, not for the shard.
    """
    from pipelines.shards.annotated import prepare_annotated
    from pipelines.shards.careful import CarefulAttempt
    from pipelines.shards.corpus import prepare_shard, run_shard

    with _busy:
        try:
            model = _loaded(task)
            if (committed := finished_entry(task.output, shard.name)) is not None:
                return Outcome("done", committed)  # by another attempt, such as one that was thought to be dead
            run: Callable[..., Entry] = prepare_shard
            if isinstance(task, TagTask):
                run = run_shard
            elif isinstance(task, AnnotatedTask):
                run = prepare_annotated
            if not careful:
                with _watched(f"shard {shard.name}", task.shard_seconds, task.worker_bytes):
                    return Outcome("done", run(shard, task, model, progress))
            lock = threading.Lock()

            def report(documents: int = 0, words: int = 0, n_bytes: int = 0) -> None:
                with lock:  # Reading and tagging report from threads of their own.
                    if progress is not None:
                        progress(documents, words, n_bytes)

            with _watched(f"shard {shard.name}", 0, task.worker_bytes), CarefulAttempt(task, report) as attempts:
                return Outcome("done", run(shard, task, model, report, attempts))
        except PipelineError as error:
            if error.code in ("input.changed", "samples.damaged"):
                return Outcome("changed", describe(error))
            if error.code in ("output.not_writable", "output.not_readable"):  # from here and now
                return Outcome("failed", describe(error))
            # A broken model may work in a new process (a GPU does not get over some faults in the old one).
            return Outcome("broken", describe(error)) if error.code == "model.broken" else Outcome("fault", error)
        except CodedError as error:
            return Outcome("fault", error)
        except Exception as error:  # Storage that stumbles, or a bug: perhaps better next time.
            return Outcome("failed", describe(error))


@contextmanager
def _watched(what: str, seconds: float, n_bytes: int = 0) -> Iterator[None]:
    """End the process while the block runs if a limit is passed (0: none); nothing else ends a stuck thread."""
    if not seconds and not n_bytes:
        yield
        return
    over = threading.Event()
    start = time.monotonic()

    def watch() -> None:
        while not over.wait(_WATCH_SECONDS):
            if seconds and time.monotonic() - start > seconds:
                _end(EXIT_STUCK, f"{what} took over {seconds:g} s")
            if n_bytes and (held := rss_bytes()) > n_bytes:
                _end(EXIT_MEMORY, f"{what}: {held:,} bytes of memory, over {n_bytes:,}")

    thread = threading.Thread(target=watch, name="watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _end(code: int, why: str) -> None:
    print(f"spanmarker: worker process {os.getpid()} ends itself: {why}", file=sys.stderr, flush=True)
    os._exit(code)

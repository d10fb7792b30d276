"""Entry points of a worker process, the same for every engine: loading the model once, and attempts at shards.

An engine calls `prepare_process` before anything imports torch, and then `attempt` for each shard. The result of
an attempt is a value (`Outcome`), so that engines need not agree on exceptions.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pipelines.errors import PipelineError, describe
from pipelines.output.manifest import finished_entry
from pipelines.processes.exit_codes import EXIT_MEMORY, EXIT_STUCK
from pipelines.processes.memory import rss_bytes
from pipelines.shards.annotated import AnnotatedShard
from pipelines.shards.careful import CarefulAttempt
from pipelines.shards.corpus import PrepareShard, TagSamplesShard, TagShard
from pipelines.shards.model import LOAD_SECONDS, Model, Packing, model_for
from pipelines.shards.progress import Report, ShardProgress
from pipelines.shards.runner import ShardWork
from pipelines.task import AnnotatedTask, TagTask, Task
from schemas.manifest import Entry
from schemas.shards import Shard
from spanmarker_core.errors import CodedError

if TYPE_CHECKING:  # It imports torch, which preparing samples does not need.
    from spanmarker_core.inference.tagger import Tagger

_WATCH_SECONDS = 0.5

#: One shard at a time per process: a model's threads and buffers serve one shard.
_busy = threading.Lock()


@dataclass(frozen=True, slots=True)
class Done:
    """The shard is committed.

    Attributes:
        entry: its manifest entry.
    """

    entry: Entry


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt failed, which does not affect other shards.

    Attributes:
        reason: the reason, on one line.
        retry: whether another attempt may succeed.
        new_process: whether the process should be replaced before that, because its model fails on any text.
    """

    reason: str
    retry: bool = True
    new_process: bool = False


@dataclass(frozen=True, slots=True)
class Fault:
    """The job has to end.

    Attributes:
        error: the error that ends it.
    """

    error: CodedError


#: The result of an attempt at a shard.
Outcome = Done | Failed | Fault


def _loaded(task: Task) -> Model:
    with _watched("loading the model", LOAD_SECONDS):
        return model_for(task)


def facts(task: Task) -> dict[str, str]:
    """Return device and settings of the loaded model, for the first line of a run.

    Ends the process if loading takes too long.

    Args:
        task: the shard task.

    Raises:
        CodedError: the errors of `pipelines.shards.model.model_for`.
    """
    with _busy:
        model = _loaded(task)
    if not isinstance(task, TagTask) or isinstance(model, Packing):
        return {"device": "cpu"}

    from spanmarker_core.bundle.config import describe_gate
    from spanmarker_core.inference.scorer import BATCH_TOKENS

    return {
        "device": str(model.device),
        "dtype": task.dtype,
        "gate": describe_gate(model.gate_threshold),
        "batches": f"up to {BATCH_TOKENS[model.device.type]} text tokens, windows of similar length together",
    }


def run_shard(
    shard: Shard,
    task: Task,
    model: Model,
    report: Report | None = None,
    careful: CarefulAttempt | None = None,
) -> Entry:
    """Do the work of a task on one shard, commit its manifest entry, return the entry.

    Args:
        shard: the shard to read.
        task: the shard task.
        model: the model of the task (`pipelines.shards.model.model_for`).
        report: receives the progress.
        careful: rejects records that end a process; None leaves the process unprotected.

    Raises:
        PipelineError: see `ShardWork.run`.
        OSError: the input's storage failed.
    """
    work: ShardWork[Any]
    if isinstance(task, TagTask):
        work = (TagSamplesShard if task.samples else TagShard)(shard, task, cast("Tagger", model), careful)
    elif isinstance(task, AnnotatedTask):
        work = AnnotatedShard(shard, task, cast(Packing, model), careful)
    else:
        work = PrepareShard(shard, task, cast(Packing, model), careful)
    return work.run(report)


def attempt(shard: Shard, task: Task, report: Report | None = None, careful: bool = False) -> Outcome:
    """Attempt one shard. Ends the process if that takes too much time or memory.

    Args:
        shard: the shard.
        task: the shard task.
        report: receives the progress.
        careful: whether to reject documents that end a process, for the last attempt (`pipelines.shards.careful`). The
            time limit then applies to each step of the work instead of the shard.
    """
    with _busy:
        try:
            model = _loaded(task)
            if (committed := finished_entry(task.output, shard.name)) is not None:
                return Done(committed)  # by another attempt, for example one considered dead
            if not careful:
                with _watched(f"shard {shard.name}", task.shard_seconds, task.worker_bytes):
                    return Done(run_shard(shard, task, model, report))
            lock = threading.Lock()

            def alive(progress: ShardProgress = ShardProgress()) -> None:  # noqa: B008  # it is immutable
                restart()
                with lock:  # Reading and tagging report from different threads.
                    if report is not None:
                        report(progress)

            # A step ends at its own limit, after the time that its process takes to load the model.
            seconds = task.shard_seconds and LOAD_SECONDS + 2 * task.shard_seconds
            with (
                _watched(f"a step of shard {shard.name}", seconds, task.worker_bytes) as restart,
                CarefulAttempt(task, alive) as attempts,
            ):
                return Done(run_shard(shard, task, model, alive, attempts))
        except PipelineError as error:
            if error.code in ("input.changed", "samples.damaged"):
                return Failed(describe(error), retry=False)
            if error.code in ("output.not_writable", "output.not_readable"):  # possibly temporary or local
                return Failed(describe(error))
            # A broken model may work in a new process: a GPU does not recover from some faults in the old one.
            return Failed(describe(error), new_process=True) if error.code == "model.broken" else Fault(error)
        except CodedError as error:
            return Fault(error)
        except Exception as error:  # A temporary storage failure, or a bug: another attempt may succeed.
            return Failed(describe(error))


@contextmanager
def _watched(what: str, seconds: float, n_bytes: int = 0) -> Iterator[Callable[[], None]]:
    """End the process if a limit is exceeded while the block runs (0: no limit): a stuck thread can't be stopped.

    Yields:
        A function that starts the time again.
    """
    over = threading.Event()
    start = time.monotonic()

    def restart() -> None:
        nonlocal start
        start = time.monotonic()

    if not seconds and not n_bytes:
        yield restart
        return

    def watch() -> None:
        while not over.wait(_WATCH_SECONDS):
            if seconds and time.monotonic() - start > seconds:
                _end(EXIT_STUCK, f"{what} took more than {seconds:g} s")
            if n_bytes and (held := rss_bytes()) > n_bytes:
                _end(EXIT_MEMORY, f"{what}: {held:,} bytes of memory, limit {n_bytes:,}")

    thread = threading.Thread(target=watch, name="watch", daemon=True)
    thread.start()
    try:
        yield restart
    finally:
        over.set()
        thread.join()


def _end(code: int, why: str) -> None:
    print(f"spanmarker: worker process {os.getpid()} is stopping: {why}", file=sys.stderr, flush=True)
    os._exit(code)

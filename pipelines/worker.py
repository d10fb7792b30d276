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
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from pipelines import CODE_VERSION
from pipelines.bundled import bundled_model_path
from pipelines.errors import PipelineError
from pipelines.exit_codes import EXIT_MEMORY, EXIT_STUCK
from pipelines.manifest import finished_entry
from pipelines.memory import rss_bytes
from pipelines.storage import use_options
from pipelines.task import AnnotatedTask, TagTask, Task
from schemas.manifest import Entry
from schemas.shards import Shard
from spanmarker_core.errors import CodedError

if TYPE_CHECKING:
    from spanmarker_core.windows import Packer

#: Seconds that a model may take to load.
LOAD_SECONDS = 600.0
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


@lru_cache(maxsize=1)
def model_for(task: Task) -> Any:
    """Return the task's model, loaded once a process, after a check that it and this program are the job's.

    It is what `run_shard` takes, or the `Packing` of `prepare_shard`, for which torch stays out of the process.

    Raises:
        CodedError: `worker.other_version`, `worker.other_model`, `worker.memory_too_small`, `model.not_loaded`, or
            what is wrong with the bundle, the device or the job's decoder.
    """
    where = f"{os.uname().nodename}, process {os.getpid()}"
    if task.code != CODE_VERSION:
        raise PipelineError("worker.other_version", worker=where, there=CODE_VERSION, here=task.code)
    use_options(task.storage_options)

    # Only here, so that a driver starts in no time.
    from pipelines.shard import Packing, check_model, describe
    from spanmarker_core.bundle import read_info, read_packer

    if isinstance(task, AnnotatedTask):
        return _fitting(Packing(_annotating_packer(task, where), task.context), task)
    path = task.model or str(bundled_model_path())
    info = read_info(path)
    if info.digest != task.model_digest:
        raise PipelineError("worker.other_model", worker=where, path=path, there=info.digest, here=task.model_digest)
    if not isinstance(task, TagTask):
        return _fitting(Packing(read_packer(path, info.config), info.config.context), task)

    import torch

    from spanmarker_core import load

    if task.threads:
        torch.set_num_threads(task.threads)
    try:
        model = load(path, device=task.device, dtype=task.dtype, gate=task.gate)
        check_model(model, task)
    except CodedError:
        raise
    except Exception as error:
        raise PipelineError("model.not_loaded", path=path, reason=describe(error)) from error
    return _fitting(model, task)


def _annotating_packer(task: AnnotatedTask, where: str) -> "Packer":
    """Return the packer that a task describes, whose tokenizer its driver has put into the output."""
    from pipelines.annotated_job import read_tokenizer, tokenizer_digest, tokenizer_path
    from spanmarker_core.windows import Packer

    path = tokenizer_path(task.output)
    tokenizer = read_tokenizer(path)
    if (there := tokenizer_digest(tokenizer)) != task.model_digest:
        raise PipelineError("worker.other_model", worker=where, path=path, there=there, here=task.model_digest)
    return Packer(
        tokenizer,
        prefix=task.prefix,
        suffix=task.suffix,
        unknown_id=task.unknown_id,
        max_tokens=task.max_tokens,
        entity_max_length=task.entity_max_length,
        splitter=task.splitter,
    )


def _fitting(model: Any, task: Task) -> Any:
    """Refuse a model that leaves no memory for a shard: each would end its worker process.

    Only the first one of a process: another finds what the one before it left behind.
    """
    if task.worker_bytes and not model_for.cache_info().currsize and (held := rss_bytes()) > task.worker_bytes:
        raise PipelineError("worker.memory_too_small", held=f"{held:,}", limit=f"{task.worker_bytes:,}")
    return model


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

    from spanmarker_core.bundle import gate_words
    from spanmarker_core.tagger import BATCH_TOKENS

    return {
        "device": str(model.device),
        "dtype": task.dtype,
        "gate": gate_words(model.gate_threshold),
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
    from pipelines.annotated import prepare_annotated
    from pipelines.careful import CarefulAttempt
    from pipelines.shard import describe, prepare_shard, run_shard

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

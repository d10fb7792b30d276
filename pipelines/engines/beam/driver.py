"""The Beam engine: a pipeline of shards on Beam's bundled runner, or on any that Beam's own options name.

What is to do is a file, and what is done is the manifest. So the driver only hands in a pipeline that tags what the
file lists (`beam_pipeline`), and looks at the manifest now and then until the pipeline has ended or stands still.

The pipeline is handed in, and with the bundled runner run, by a process of its own in a process group of its own.
Beam's threads and worker processes go with that group, whatever becomes of them, and the driver holds neither Beam
nor torch. The bundled runner waits for ever for a worker process that died; here that ends the job, and the same
command does the rest. Other runners replace their workers, and go on without whoever handed the pipeline in: so that
process cancels it when the driver ends early, however it does.

All shards are listed before the first is done, so `--max-rejects` ends no run early here; it is held against the
whole, as ever.
"""

import contextlib
import itertools
import json
import logging
import os
import re
import secrets
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np

from pipelines.engines import GIVE_UP, KEPT, TRIES, Listener, Settings, failure, refuse_memory
from pipelines.engines.beam.failures import BEGUN, CHANGED, FAILURES
from pipelines.errors import EXIT_CODES, PipelineError
from pipelines.output.digest_set import DigestSet, Sizes, digests_of, pages
from pipelines.output.manifest import committed_entry, is_shard_name
from pipelines.output.plan_file import save_shards, shard_of
from pipelines.processes.children import exit_with_parent, start
from pipelines.processes.exit_codes import describe_exit
from pipelines.storage import join, make_folder, names_in, open_input, publish, read_all, remove, use_options
from pipelines.task import Task
from schemas.shards import Shard
from spanmarker_core.errors import CodedError

#: Seconds without a shard that is done or has failed, after which a pipeline is given up, if shards have no time limit.
STALL_SECONDS = 3600.0
#: Seconds that a runner has to start its workers; with a limit for shards, what is waited is this and TRIES limits.
START_SECONDS = 600.0
_POLL_SECONDS = 2.0
_POLL_SHARE = 20  # looking takes at most one part in so many of the driver's time, however long the manifest is
_CANCEL_SECONDS = 10.0  # to cancel what was handed in, before the process is killed
_PAGE = 1024
_READERS = 16  # small files fetched at once
_CODED = re.compile(r"\[([a-z]+\.[a-z_]+)\] ")


def run(shards: Iterator[Shard], task: Task, settings: Settings, listener: Listener) -> None:
    """Run `shards` in a Beam pipeline.

    Raises:
        PipelineError: `output.not_shared`; `engine.not_installed`, `beam.bad_options`; `engine.failed` with the fault
            of the job that ended the pipeline, `engine.died` with what else did; `engine.stalled`; `shards.failed`.
    """
    refuse_memory(task)
    # Its own name, so that a driver that stood still, and whose output another run has by now, removes no list but its.
    todo = _ShardQueue(task.output, f"todo-{secrets.token_hex(8)}.jsonl")
    make_folder(todo.failures)
    for name in list(names_in(todo.failures, ".json")):
        remove(join(todo.failures, f"{name}.json"))
    with contextlib.ExitStack() as stack:
        stack.callback(todo.remove)  # What was handed in and could not be cancelled finds nothing more to do.
        todo.write(shards)
        process, connection = start(_work, todo.url, task, settings, daemon=False)
        stack.callback(_end, process)
        _watch(connection, process, todo, task, listener)
        process.join(_CANCEL_SECONDS)
        todo.end()
        for name in list(names_in(todo.failures, BEGUN)):  # of shards that are not planned any more
            remove(join(todo.failures, f"{name}{BEGUN}"))


def _end(process: BaseProcess) -> None:
    """End the process that handed the pipeline in, and its group; it cancels what it can."""
    if process.is_alive():
        process.terminate()
        process.join(_CANCEL_SECONDS + 1)
    process.kill()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid or 0, signal.SIGKILL)
    process.join()


class _ShardQueue:
    """The shards to do: a file for the workers, and here 17 bytes a shard.

    Attributes:
        url: the file.
        failures: the folder in which workers say why shards failed.
    """

    def __init__(self, output: str, name: str) -> None:
        self.url, self.failures = join(output, name), join(output, FAILURES)

    def write(self, shards: Iterable[Shard]) -> None:
        """Publish the list of shards as they come."""
        with publish(self.url) as file:
            self.sizes = Sizes.of(save_shards(file, self.url, shards))
        self.seen = np.zeros(len(self.sizes.names), bool)  # whether it is in the manifest

    def remove(self) -> None:
        """Remove the file."""
        with contextlib.suppress(CodedError, OSError):  # Left behind it does no harm.
            remove(self.url)

    def news(self, names: Iterable[str]) -> Iterator[list[tuple[str, int]]]:
        """Yield, in pages, the shards among `names` that are seen for the first time, each with its planned bytes."""
        for page in pages(filter(is_shard_name, names), _PAGE):
            keys = digests_of(page)
            ours = self.sizes.names.mask(keys)
            places = np.searchsorted(self.sizes.names.keys, keys[ours])
            new = ~self.seen[places]
            self.seen[places] = True
            found = itertools.compress(itertools.compress(page, ours), new)
            yield list(zip(found, self.sizes.sizes[places[new]].tolist(), strict=True))

    def told(self) -> tuple[int, int]:
        """Return how many shards failed for good, and how many of them failed though their input did not change."""
        counts = [0, 0]
        for name in names_in(self.failures, ".json"):
            counts[name.endswith(CHANGED)] += 1
        return sum(counts), counts[0]

    def gave_up(self, count: int) -> PipelineError:
        """Return the error for `count` shards that failed, of which the last ones did in a row."""
        names = itertools.islice(names_in(self.failures, ".json"), KEPT)
        reasons = {name.removesuffix(CHANGED): self._reason(name.removesuffix(CHANGED)) for name in names}
        return failure(reasons, len(self.seen), count, gave_up=True)

    def end(self) -> None:
        """Raise `shards.failed` if shards were not seen."""
        if not (count := int((~self.seen).sum())):
            return
        left = DigestSet(self.sizes.names.keys[~self.seen])
        with open_input(self.url) as file:
            names = left.among(shard_of(line).name for line in file)
            reasons = {name: self._reason(name) for name in itertools.islice(names, KEPT)}
        raise failure(reasons, len(self.seen), count)

    def _reason(self, shard: str) -> str:
        """Return why a shard failed, as its worker wrote it."""
        for ending in ("", CHANGED):
            with contextlib.suppress(FileNotFoundError):
                return str(json.loads(read_all([join(self.failures, f"{shard}{ending}.json")])[0])["reason"])
        return "the runner ended without it"


def _watch(connection: Connection, process: BaseProcess, todo: _ShardQueue, task: Task, listener: Listener) -> None:
    """Tell the listener what is done until the pipeline has ended.

    Raises:
        PipelineError: `engine.failed`, `engine.died`, `engine.stalled`, `shards.failed` if there is no use in going
            on, or what the pipeline was refused with.
    """
    limit = TRIES * task.shard_seconds + START_SECONDS if task.shard_seconds else STALL_SECONDS
    alive, pause = time.monotonic(), _POLL_SECONDS
    n_told = n_before = 0  # shards that failed; those that did so before one was done last
    while True:
        kind, value = _hear(connection, process) if connection.poll(pause) else ("silence", "")
        if isinstance(value, PipelineError):
            raise value
        if kind == "started":
            listener.started({**task.machine, "runner": value})
        began = time.monotonic()
        n_new = 0
        for page in todo.news(names_in(join(task.output, "manifest"), ".json")):
            n_new += len(page)
            with ThreadPoolExecutor(_READERS) as pool:
                entries = pool.map(committed_entry, [task.output] * len(page), [name for name, _ in page])
                for (_, n_bytes), entry in zip(page, entries, strict=True):
                    if entry is not None:
                        listener.progressed(entry.shard, entry.counts["documents"], entry.counts["words"], n_bytes)
                        listener.finished(entry, n_bytes, "Beam")
        if kind == "failed":
            raise _broken_off(value)
        if kind == "done":
            return
        told, failed = todo.told()
        now = time.monotonic()
        if n_new or told > n_told:
            alive, n_told = now, told
        if n_new:
            n_before = failed
        if failed - n_before >= GIVE_UP:
            raise todo.gave_up(told)
        if now - alive > limit:
            raise PipelineError("engine.stalled", engine="Beam", seconds=f"{limit:g}")
        pause = max(_POLL_SECONDS, _POLL_SHARE * (now - began))


def _broken_off(reason: str) -> PipelineError:
    """Return the error for a pipeline that ended with this: a fault of the job, or what may go better next time."""
    code = _CODED.match(reason)
    fault = code is not None and code[1] not in EXIT_CODES
    return PipelineError("engine.failed" if fault else "engine.died", engine="Beam", reason=reason)


def _hear(connection: Connection, process: BaseProcess) -> tuple[str, str | PipelineError]:
    try:
        return connection.recv()
    except (EOFError, OSError):
        process.join()
        return "failed", f"its process ended ({describe_exit(process.exitcode)})"


def _work(connection: Connection, todo: str, task: Task, settings: Settings) -> None:
    """The life of the process that hands the pipeline in. It ends with the driver, and when it is told to."""
    os.setsid()
    ending, handed_in = threading.Event(), Future[Any]()
    cancelling = threading.Thread(target=_cancel, args=(ending, handed_in, todo, task), name="cancel", daemon=True)
    cancelling.start()
    exit_with_parent(ending.set)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    logging.disable(logging.WARNING)  # as to what else could be installed
    try:
        from pipelines.engines.beam.pipeline import submit_pipeline
    except ImportError as error:
        connection.send(("refused", PipelineError("engine.not_installed", engine="beam", reason=error)))
        return
    logging.disable(logging.NOTSET)
    last_word = submit_pipeline(connection, todo, task, settings, handed_in)
    if ending.is_set():
        cancelling.join()  # It ends this process.
    connection.send(last_word)
    connection.close()
    os._exit(0)  # Beam's threads have nothing more to say, and may not end by themselves.


def _cancel(ending: threading.Event, handed_in: "Future[Any]", todo: str, task: Task) -> None:
    """Cancel what was handed in when this process is to end, and end its group, so that nothing writes beside the next
    run. Runs in a thread.

    Args:
        ending: says so.
        handed_in: running while a pipeline is handed in, then its `PipelineResult`; pending if there is none to cancel.
        todo, task: the list that is of no use any more.
    """
    ending.wait()
    last = threading.Timer(_CANCEL_SECONDS, os.killpg, (0, signal.SIGKILL))
    last.daemon = True
    last.start()
    if not handed_in.cancel():
        with contextlib.suppress(Exception):  # It can't be, or is nowhere any more.
            handed_in.result().cancel()
    with contextlib.suppress(Exception):  # The driver is perhaps not there to do it.
        use_options(task.storage_options)
        remove(todo)
    os.killpg(0, signal.SIGKILL)

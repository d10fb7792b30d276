"""The Beam engine: processes shards in a Beam pipeline on the bundled runner or on any runner set in Beam's options.

A file lists the shards to process, and the manifest records those that are done. The driver submits a pipeline that
processes the listed shards (`pipelines.engines.beam.pipeline`) and polls the manifest until the pipeline ends or
stalls.

A separate process, in its own process group, submits the pipeline and, with the bundled runner, also runs it. Killing
the group ends Beam's threads and worker processes in every case, and the driver imports neither Beam nor torch. The
bundled runner would wait forever for a dead worker process; here the death ends the job, and running the same command
again resumes it. Other runners replace dead workers and continue without the submitting process, so that process
cancels the pipeline when the driver ends early for any reason.

All shards are listed before the first one is processed, so `--max-rejects` cannot end a run early with this engine;
the limit is checked against the whole output at the end.
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
from pipelines.output.digest_set import DigestSet, Sizes, chunks, digests_of
from pipelines.output.manifest import committed_entry, is_shard_name
from pipelines.output.plan_file import save_shards, shard_of
from pipelines.processes.children import exit_with_parent, start
from pipelines.processes.exit_codes import describe_exit
from pipelines.shards.progress import ShardProgress
from pipelines.storage import join, make_folder, names_in, open_input, publish, read_all, remove, use_options
from pipelines.task import Task
from schemas.manifest import Entry
from schemas.shards import Shard
from spanmarker_core.errors import CodedError

#: Seconds without a finished or failed shard after which a pipeline counts as stalled, if shards have no time limit.
STALL_SECONDS = 3600.0
#: Seconds allowed for a runner to start its workers. With a time limit for shards, a pipeline counts as stalled after
#: this time plus TRIES times the limit.
START_SECONDS = 600.0
_POLL_SECONDS = 2.0
_POLL_SHARE = 20  # polling takes at most 1/20 of the driver's time, however long the manifest is
_CANCEL_SECONDS = 10.0  # time for cancelling the pipeline before its process is killed
_CHUNK = 1024
_READERS = 16  # small files read concurrently
_CODED = re.compile(r"\[([a-z]+\.[a-z_]+)\] ")


def run(shards: Iterator[Shard], task: Task, settings: Settings, listener: Listener) -> None:
    """Process `shards` in a Beam pipeline.

    Args:
        shards: pending shards.
        task: the shard task.
        settings: Beam options and the number of workers and threads.
        listener: handler of the run's events.

    Raises:
        PipelineError: `output.not_shared`; `engine.not_installed`; `beam.bad_options`; `engine.failed` if an error of
            the job ended the pipeline; `engine.died` if something else did; `engine.stalled`; `shards.failed`.
    """
    refuse_memory(task)
    # A unique name: a driver that was suspended while another run took over the output removes only its own list.
    queue = _ShardQueue(task.output, f"todo-{secrets.token_hex(8)}.jsonl")
    make_folder(queue.failures)
    for name in list(names_in(queue.failures, ".json")):
        remove(join(queue.failures, f"{name}.json"))
    with contextlib.ExitStack() as stack:
        stack.callback(queue.remove)  # A pipeline that could not be cancelled finds no more shards to process.
        queue.write(shards)
        process, connection = start(_work, queue.url, task, settings, daemon=False)
        stack.callback(_end, process)
        _watch(connection, process, queue, task, listener)
        process.join(_CANCEL_SECONDS)
        queue.end()
        for name in list(names_in(queue.failures, BEGUN)):  # left by shards that earlier runs planned
            remove(join(queue.failures, f"{name}{BEGUN}"))


def _end(process: BaseProcess) -> None:
    """End the submitting process and its group, after giving it time to cancel the pipeline."""
    if process.is_alive():
        process.terminate()
        process.join(_CANCEL_SECONDS + 1)
    process.kill()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid or 0, signal.SIGKILL)
    process.join()


class _ShardQueue:
    """The pending shards of a run: a file for the workers, and 17 bytes per shard in memory.

    Attributes:
        url: URL of the file.
        failures: folder in which workers record why shards failed.
    """

    def __init__(self, output: str, name: str) -> None:
        self.url, self.failures = join(output, name), join(output, FAILURES)
        self.sizes = Sizes.of(())  # planned size of each shard, in bytes
        self.seen = np.zeros(0, bool)  # whether each shard was seen in the manifest

    def write(self, shards: Iterable[Shard]) -> None:
        """Publish the list of shards, streamed."""
        with publish(self.url) as file:
            self.sizes = Sizes.of(save_shards(file, self.url, shards))
        self.seen = np.zeros(len(self.sizes.names), bool)

    def remove(self) -> None:
        """Remove the file."""
        with contextlib.suppress(CodedError, OSError):  # A leftover file is harmless.
            remove(self.url)

    def new_entries(self, names: Iterable[str]) -> Iterator[list[tuple[str, int]]]:
        """Yield lists of shards from `names` that are seen for the first time, each with its planned size in bytes."""
        for chunk in chunks(filter(is_shard_name, names), _CHUNK):
            keys = digests_of(chunk)
            ours = self.sizes.names.mask(keys)
            indices = np.searchsorted(self.sizes.names.keys, keys[ours])
            new = ~self.seen[indices]
            self.seen[indices] = True
            found = itertools.compress(itertools.compress(chunk, ours), new)
            yield list(zip(found, self.sizes.sizes[indices[new]].tolist(), strict=True))

    def count_failures(self) -> tuple[int, int]:
        """Return the number of permanently failed shards, and the number of those whose input did not change."""
        counts = [0, 0]
        for name in names_in(self.failures, ".json"):
            counts[name.endswith(CHANGED)] += 1
        return sum(counts), counts[0]

    def give_up_error(self, count: int) -> PipelineError:
        """Return the error for a run that ends after GIVE_UP failures in a row; `count` shards failed in total."""
        names = itertools.islice(names_in(self.failures, ".json"), KEPT)
        reasons = {name.removesuffix(CHANGED): self._reason(name.removesuffix(CHANGED)) for name in names}
        return failure(reasons, len(self.seen), count, given_up=True)

    def end(self) -> None:
        """Raise `shards.failed` if any shard is missing from the manifest."""
        if not (count := int((~self.seen).sum())):
            return
        left = DigestSet(self.sizes.names.keys[~self.seen])
        with open_input(self.url) as file:
            names = left.among(shard_of(line).name for line in file)
            reasons = {name: self._reason(name) for name in itertools.islice(names, KEPT)}
        raise failure(reasons, len(self.seen), count)

    def _reason(self, shard: str) -> str:
        """Return the reason that a worker recorded for a failed shard."""
        for ending in ("", CHANGED):
            with contextlib.suppress(FileNotFoundError):
                return str(json.loads(read_all([join(self.failures, f"{shard}{ending}.json")])[0])["reason"])
        return "the runner ended without a result for it"


def _watch(connection: Connection, process: BaseProcess, queue: _ShardQueue, task: Task, listener: Listener) -> None:
    """Report finished shards to the listener until the pipeline has ended.

    Raises:
        PipelineError: `engine.failed`, `engine.died`; `engine.stalled`; `shards.failed` if too many shards failed in a
            row; `engine.not_installed` or `beam.bad_options` if the pipeline could not be submitted.
    """
    alive, pause = time.monotonic(), _POLL_SECONDS
    n_failed = n_before = 0  # failed shards in total, and when the last shard was committed
    while True:
        kind, value = _hear(connection, process) if connection.poll(pause) else ("silence", "")
        if isinstance(value, PipelineError):
            raise value
        if kind == "started":
            listener.started({**task.machine, "runner": value})
        began = time.monotonic()
        n_new = 0
        for chunk in queue.new_entries(names_in(join(task.output, "manifest"), ".json")):
            n_new += len(chunk)
            with ThreadPoolExecutor(_READERS) as pool:
                entries = pool.map(committed_entry, [task.output] * len(chunk), [name for name, _ in chunk])
                for (_, n_bytes), entry in zip(chunk, entries, strict=True):
                    if entry is not None:
                        listener.progressed(entry.shard, _all_of(entry, n_bytes))
                        listener.finished(entry, n_bytes, "Beam")
        if kind == "failed":
            raise _broken_off(value)
        if kind == "done":
            return
        in_all, failed = queue.count_failures()
        now = time.monotonic()
        if n_new or in_all > n_failed:
            alive, n_failed = now, in_all
        if n_new:
            n_before = failed
        if failed - n_before >= GIVE_UP:
            raise queue.give_up_error(in_all)
        limit = TRIES * task.shard_seconds + START_SECONDS if task.shard_seconds else STALL_SECONDS
        if now - alive > limit:
            raise PipelineError("engine.stalled", engine="Beam", seconds=f"{limit:g}")
        pause = max(_POLL_SECONDS, _POLL_SHARE * (now - began))


def _all_of(entry: Entry, n_bytes: int) -> ShardProgress:
    """Return the progress of a whole shard: runners offer no channel for reports within one."""
    counts = entry.counts
    rejects = counts["rejected"] + counts["unreadable"]
    return ShardProgress(counts["documents"], counts["words"], n_bytes, sum(entry.labels.values()), rejects)


def _broken_off(reason: str) -> PipelineError:
    """Return the error for a failed pipeline: `engine.failed` for an error of the job, else `engine.died`."""
    code = _CODED.match(reason)
    fault = code is not None and code[1] not in EXIT_CODES
    return PipelineError("engine.failed" if fault else "engine.died", engine="Beam", reason=reason.rstrip("."))


def _hear(connection: Connection, process: BaseProcess) -> tuple[str, str | PipelineError]:
    try:
        return connection.recv()
    except (EOFError, OSError):
        process.join()
        return "failed", f"its process ended ({describe_exit(process.exitcode)})"


def _work(connection: Connection, todo: str, task: Task, settings: Settings) -> None:
    """Main function of the submitting process, which ends with the driver or on SIGTERM or SIGINT."""
    os.setsid()
    ending, submitted = threading.Event(), Future[Any]()
    cancelling = threading.Thread(target=_cancel, args=(ending, submitted, todo, task), name="cancel", daemon=True)
    cancelling.start()
    exit_with_parent(ending.set)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    logging.disable(logging.WARNING)  # Suppress hints about optional dependencies.
    try:
        from pipelines.engines.beam.pipeline import submit_pipeline
    except ImportError as error:
        connection.send(("refused", PipelineError("engine.not_installed", engine="beam", reason=error)))
        return
    logging.disable(logging.NOTSET)
    final_status = submit_pipeline(connection, todo, task, settings, submitted)
    if ending.is_set():
        cancelling.join()  # It ends this process.
    connection.send(final_status)
    connection.close()
    os._exit(0)  # Beam's threads have finished their work but may not end by themselves.


def _cancel(ending: threading.Event, submitted: "Future[Any]", todo: str, task: Task) -> None:
    """Cancel the submitted pipeline when this process must end, then end its process group. Runs in a thread.

    This way no late worker writes to the output during the next run.

    Args:
        ending: set when this process must end.
        submitted: running during submission, then holds the `PipelineResult`; pending if there is nothing to cancel.
        todo: URL of the shard list, which is removed.
        task: the shard task; provides the storage options.
    """
    ending.wait()
    last = threading.Timer(_CANCEL_SECONDS, os.killpg, (0, signal.SIGKILL))
    last.daemon = True
    last.start()
    if not submitted.cancel():
        with contextlib.suppress(Exception):  # The runner may not support it, or may have gone away.
            submitted.result().cancel()
    with contextlib.suppress(Exception):  # The driver may no longer be there to remove it.
        use_options(task.storage_options)
        remove(todo)
    os.killpg(0, signal.SIGKILL)

"""The local engine: worker processes on this machine, each with one model and one shard at a time.

The parent sends a worker its next shard when the last one is done, so no queue builds up. The parent never imports
torch, and each worker is a fresh process, which confines the effects of a model (threads, memory, crashes). If a worker
dies, its shard was not committed and is assigned to a new worker. If the parent dies for any reason, the workers end at
once.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from pipelines.engines import TRIES, Listener, Settings, Tries, refuse_memory
from pipelines.errors import PipelineError
from pipelines.processes.children import exit_with_parent, start
from pipelines.processes.exit_codes import describe_exit
from pipelines.processes.thread_limits import prepare_process
from pipelines.shards.model import LOAD_SECONDS
from pipelines.shards.progress import Throttle
from pipelines.shards.worker import Done, Failed, Fault, Outcome, attempt, facts
from pipelines.task import Task
from schemas.shards import Shard
from spanmarker_core.errors import CodedError

#: Seconds beyond a time limit after which a worker that did not end itself, for example a suspended one, is killed.
_GRACE = 5.0
#: Least seconds between two reports of a worker: each wakes the parent up.
_REPORT_SECONDS = 0.25


def run(shards: Iterator[Shard], task: Task, settings: Settings, listener: Listener) -> None:
    """Process `shards` in `settings.workers` processes.

    Args:
        shards: pending shards.
        task: the shard task.
        settings: number of workers and threads.
        listener: handler of the run's events.

    Raises:
        CodedError: an error of the job (model, device), raised in a worker; it stops all workers.
        PipelineError: `output.not_shared`; `worker.start_failed`; `shards.failed` after all other shards are done, or
            after too many failures in a row.
    """
    refuse_memory(task)
    _Pool(shards, task, settings, listener).run()


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    connection: Connection
    shard: Shard | None = None
    ready: bool = False
    since: float = field(default_factory=time.monotonic)  # start of the worker or of its shard, or its last progress


@dataclass
class _Pool:
    shards: Iterator[Shard]
    task: Task
    settings: Settings
    listener: Listener
    workers: list[_Worker] = field(default_factory=list)
    retries: list[Shard] = field(default_factory=list)
    failed_starts: int = 0
    announced: bool = False

    def __post_init__(self) -> None:
        self.tries = Tries(self.listener)

    def run(self) -> None:
        try:
            for _ in range(self.settings.workers):
                self._start()
            while self.workers:
                for connection in wait([worker.connection for worker in self.workers], timeout=1):
                    self._hear(next(worker for worker in self.workers if worker.connection is connection))
                    self.tries.check()
                self._kill_stuck()
        finally:
            self._stop()
        self.tries.end()

    def _start(self) -> None:
        self.workers.append(_Worker(*start(work, self.task, daemon=True)))

    def _hear(self, worker: _Worker) -> None:
        try:
            kind, values = worker.connection.recv()
        except (EOFError, OSError):
            self._died(worker)
            return
        if kind == "ready":
            worker.ready, self.failed_starts = True, 0
            if not self.announced:
                self.announced = True
                self.listener.started(values)
            self._feed(worker)
        elif kind == "progress" and worker.shard is not None:
            worker.since = time.monotonic()
            self.listener.progressed(worker.shard.name, values)
        elif kind == "outcome":
            self._finished(worker, values)

    def _finished(self, worker: _Worker, outcome: Outcome) -> None:
        """Record the outcome of an attempt, and give the worker its next shard unless it is about to end."""
        if isinstance(outcome, Fault):
            raise outcome.error
        assert worker.shard is not None
        if isinstance(outcome, Done):
            self.tries.done(worker.shard.name)
            self.listener.finished(outcome.entry, worker.shard.n_bytes, f"process {worker.process.pid}")
        elif not outcome.retry:
            self.tries.never(worker.shard.name, outcome.reason)
        else:
            self._failed(worker.shard, outcome.reason)
        if isinstance(outcome, Failed) and outcome.new_process:
            worker.shard = None  # The end of the worker is handled as a death without a shard.
        else:
            self._feed(worker)

    def _feed(self, worker: _Worker) -> None:
        """Send a worker its next shard, or dismiss it if none is left."""
        if self.retries:
            worker.shard = self.retries.pop()
        elif (shard := next(self.shards, None)) is not None:
            self.tries.total += 1
            worker.shard = shard
        else:
            self.workers.remove(worker)
            with contextlib.suppress(OSError):
                worker.connection.send(None)
            self._join(worker)
            return
        worker.since = time.monotonic()
        with contextlib.suppress(OSError):  # If the worker died meanwhile, the end of its connection is noticed later.
            worker.connection.send((worker.shard, self.tries.is_last(worker.shard.name)))

    def _died(self, worker: _Worker) -> None:
        self.workers.remove(worker)
        self._join(worker)
        why = describe_exit(worker.process.exitcode)
        if not worker.ready:
            self.failed_starts += 1
            if self.failed_starts >= TRIES:
                raise PipelineError("worker.start_failed", reason=f"{TRIES} workers in a row died, the last one: {why}")
        self._failed(worker.shard, f"its worker died ({why})")
        self._start()

    def _kill_stuck(self) -> None:
        """Kill workers that are far beyond their time limit; the end of their connections is then noticed."""
        now = time.monotonic()
        for worker in self.workers:
            limit = self.task.shard_seconds if worker.ready else LOAD_SECONDS
            if limit and (worker.shard or not worker.ready) and now - worker.since > limit + _GRACE:
                worker.process.kill()

    def _failed(self, shard: Shard | None, reason: str) -> None:
        if shard is not None and self.tries.again(shard.name, reason):
            self.retries.insert(0, shard)

    def _stop(self) -> None:
        """End the remaining workers when an error or Ctrl-C ends the run."""
        for worker in self.workers:
            worker.process.terminate()
        for worker in self.workers:
            self._join(worker)

    @staticmethod
    def _join(worker: _Worker) -> None:
        """Wait for a worker that is about to end; kill it after a grace period."""
        worker.process.join(_GRACE)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()
        worker.connection.close()


def work(connection: Connection, task: Task) -> None:
    """Main function of a worker: load the model, report readiness, then process shards until the parent sends None.

    Args:
        connection: pipe to the parent.
        task: the shard task.
    """
    exit_with_parent(lambda: os._exit(1))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for processes that the worker starts
    prepare_process(task.threads)
    try:
        connection.send(("ready", facts(task)))
    except CodedError as error:
        connection.send(("outcome", Fault(error)))
        return
    while (given := connection.recv()) is not None:
        shard, careful = given
        reports = Throttle(lambda progress: connection.send(("progress", progress)), _REPORT_SECONDS)
        outcome = attempt(shard, task, reports.add, careful)
        reports.flush()
        connection.send(("outcome", outcome))
        if isinstance(outcome, Fault) or (isinstance(outcome, Failed) and outcome.new_process):
            return

"""The local engine: worker processes on this machine, one model each, one shard at a time.

The parent hands a worker its next shard when it is done with the last, so nothing piles up. It never
imports torch, and a worker is always a fresh process: what a model does to its process (threads,
memory, a crash) stays there. A worker that dies takes nothing along: its shard was not committed, and
is given to a new one. If the parent dies, however it dies, the workers end at once.
"""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from pipelines.engines import Listener, Settings
from pipelines.errors import PipelineError
from pipelines.task import Task
from schemas.shards import Shard
from spanmarker_core.errors import CodedError

#: How often a shard, or the start of a worker, is tried.
TRIES = 3
#: Failed shards that the final error names.
_SHOWN = 10


def run(shards: Iterator[Shard], task: Task, settings: Settings, listener: Listener) -> None:
    """Run `shards` in `settings.workers` processes.

    Raises:
        CodedError: a fault of the job (model, device, output), raised in a worker; it stops all workers.
        PipelineError: `output.not_shared`; `shards.failed` after all others are done, `worker.start_failed`.
    """
    if task.output.startswith("memory://"):  # each process has its own
        raise PipelineError("output.not_shared", path=task.output)
    _Pool(shards, task, settings, listener).run()


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    connection: Connection
    shard: Shard | None = None
    ready: bool = False


@dataclass
class _Pool:
    shards: Iterator[Shard]
    task: Task
    settings: Settings
    listener: Listener
    workers: list[_Worker] = field(default_factory=list)
    retries: list[Shard] = field(default_factory=list)
    tries: dict[str, int] = field(default_factory=dict)  # shard name -> failures so far; done shards are dropped
    failed: dict[str, str] = field(default_factory=dict)  # shard name -> why, for good
    failed_starts: int = 0
    announced: bool = False
    total: int = 0

    def run(self) -> None:
        try:
            for _ in range(self.settings.workers):
                self._start()
            while self.workers:
                for connection in wait([worker.connection for worker in self.workers]):
                    self._hear(next(worker for worker in self.workers if worker.connection is connection))
        finally:
            self._stop()
        if self.failed:
            lines = [f"  {shard}: {reason}" for shard, reason in list(self.failed.items())[:_SHOWN]]
            raise PipelineError(
                "shards.failed",
                count=len(self.failed),
                total=self.total,
                tries=TRIES,
                failures="\n".join(lines),
            )

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=work, args=(theirs, self.task, self.settings.threads), daemon=True)
        process.start()
        theirs.close()  # Else the end of the worker would not end the connection.
        self.workers.append(_Worker(process, ours))

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
            self.listener.progressed(worker.shard.name, *values)
        elif kind == "done" and worker.shard is not None:
            self.tries.pop(worker.shard.name, None)
            self.listener.finished(values, worker.shard.n_bytes)
            self._feed(worker)
        elif kind == "failed":
            self._failed(worker.shard, values)
            self._feed(worker)
        elif kind == "changed" and worker.shard is not None:  # Another try would find the same.
            self.failed[worker.shard.name] = values
            self._feed(worker)
        elif kind == "broken":  # Its end is near, and comes as a death without a shard.
            self._failed(worker.shard, values)
            worker.shard = None
        elif kind == "fault":
            raise values

    def _feed(self, worker: _Worker) -> None:
        """Give a worker its next shard, or let it go."""
        worker.shard = self.retries.pop() if self.retries else next(self.shards, None)
        if worker.shard is None:
            self.workers.remove(worker)
            with contextlib.suppress(OSError):
                worker.connection.send(None)
            worker.process.join()
            worker.connection.close()
            return
        self.total += worker.shard.name not in self.tries
        with contextlib.suppress(OSError):  # If it died meanwhile, the connection's end will tell.
            worker.connection.send(worker.shard)

    def _died(self, worker: _Worker) -> None:
        self.workers.remove(worker)
        worker.process.join()
        worker.connection.close()
        code = worker.process.exitcode
        if not worker.ready:  # The start failed.
            self.failed_starts += 1
            if self.failed_starts >= TRIES:
                raise PipelineError("worker.start_failed", exit_code=code, tries=TRIES)
        self._failed(worker.shard, f"its worker died (exit code {code}; -9 often means that memory ran out)")
        self._start()

    def _failed(self, shard: Shard | None, reason: str) -> None:
        if shard is None:
            return
        self.tries[shard.name] = self.tries.get(shard.name, 0) + 1
        if self.tries[shard.name] < TRIES:
            self.retries.insert(0, shard)
            self.listener.retried(shard.name, reason)
        else:
            self.failed[shard.name] = reason

    def _stop(self) -> None:
        """End the workers that are still there, since an error or Ctrl-C is on its way up."""
        for worker in self.workers:
            worker.process.terminate()
        for worker in self.workers:
            worker.process.join(5)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.connection.close()


def work(connection: Connection, task: Task, threads: int) -> None:
    """A worker's life: load the model, say so, then shard after shard until told that there are no more."""
    _end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides.
    os.environ["OMP_NUM_THREADS"] = os.environ["RAYON_NUM_THREADS"] = str(threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if threads > 1 else "false"

    # Only here, so that the parent has no torch.
    import torch

    from pipelines.shard import check_model, describe, run_shard
    from spanmarker_core import load

    torch.set_num_threads(threads)
    try:
        model = load(task.model, device=task.device, dtype=task.dtype, gate=task.gate)
        check_model(model, task)
    except CodedError as error:
        connection.send(("fault", error))
        return
    except Exception as error:
        connection.send(("fault", PipelineError("model.not_loaded", path=task.model, reason=describe(error))))
        return
    connection.send(("ready", _facts(model, task)))
    while (shard := connection.recv()) is not None:
        try:
            entry = run_shard(shard, task, model, lambda *done: connection.send(("progress", done)))
        except PipelineError as error:
            if error.code == "input.changed":
                connection.send(("changed", describe(error)))
                continue
            # A broken model may work in a new process (a GPU does not get over some faults in the old one).
            connection.send(("broken", describe(error)) if error.code == "model.broken" else ("fault", error))
            return
        except Exception as error:  # Storage that stumbles, or a bug: perhaps better next time.
            connection.send(("failed", describe(error)))
        else:
            connection.send(("done", entry))


def _facts(model: Any, task: Task) -> dict[str, str]:
    from spanmarker_core.bundle import gate_words
    from spanmarker_core.tagger import BATCH_TOKENS

    return {
        "device": str(model.device),
        "dtype": task.dtype,
        "gate": gate_words(model.gate_threshold),
        "batches": f"up to {BATCH_TOKENS[model.device.type]} text tokens, windows of like length together",
    }


def _end_with_parent() -> None:
    """End this process when the parent is gone, so that it can't write beside the next run of the job."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="watch-parent", daemon=True).start()

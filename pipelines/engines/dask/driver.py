"""The Dask engine: runs shard tasks on the workers of a Dask scheduler or of a local cluster.

A worker process loads the model once, by path, when its first request arrives (`pipelines.shards.worker`); a worker
that joins later loads it with its first shard. A worker plugin would stay registered with the scheduler if the driver
is killed, and would load the model of a dead job into every new worker of a shared cluster. The scheduler holds at most
`IN_FLIGHT` shards per worker.

Start workers with one thread each, `dask worker tcp://HOST:8786 --nthreads 1`, and with `--resources GPU=1` on machines
that tag: a process tags one shard at a time. A nanny, Dask's default, replaces workers that end. The scheduler decides
how long a worker may be silent before its shard is retried elsewhere, 5 minutes by default; to change this, start the
scheduler with DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL=60s in its environment.
"""

import asyncio
import logging
import pkgutil
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import dask
from distributed import Client, Future, KilledWorker
from distributed.client import FutureCancelledError
from distributed.utils import silence_logging_cmgr

from pipelines.engines import TRIES, Listener, Settings, Tries, refuse_memory
from pipelines.engines.dask.scheduler import scheduler_of
from pipelines.engines.dask.worker import attempt_here, facts_here
from pipelines.errors import PipelineError, Terminated, describe
from pipelines.output.manifest import committed_entry
from pipelines.shards.model import LOAD_SECONDS
from pipelines.shards.progress import ShardProgress
from pipelines.shards.worker import Done, Fault, Outcome
from pipelines.task import Task
from schemas.shards import Shard
from spanmarker_core.errors import CodedError

#: Seconds to wait for a worker that can take shards, for example while a cluster scales up.
NO_WORKER_SECONDS = 120.0
#: Shards assigned per worker, including the next one, so that no worker waits for work.
IN_FLIGHT = 2
_LOOK_SECONDS = 2.0  # between polls of the list of workers
_PATIENCE = 60.0  # timeout in seconds for answers of the scheduler or a worker
_CONNECT_SECONDS = 10.0


def run(shards: Iterator[Shard], task: Task, settings: Settings, listener: Listener) -> None:
    """Process `shards` on the workers of `settings.scheduler` that offer `settings.resources`.

    Args:
        shards: pending shards.
        task: the shard task.
        settings: scheduler, resources, and the size of a local cluster.
        listener: handler of the run's events.

    Raises:
        CodedError: an error of the job (model, device), raised in a worker.
        PipelineError: `engine.not_started`, `engine.not_reached`, `engine.no_worker`, `engine.lost`,
            `worker.start_failed`, `worker.other_version`, `output.not_shared`, `output.not_seen`; `shards.failed` after
            all other shards are done, or after too many failures in a row.
    """
    refuse_memory(task)
    with silence_logging_cmgr(logging.CRITICAL), scheduler_of(settings) as address:
        driver = _Driver(shards, task, settings, listener, address)
        try:
            asyncio.run(_run(driver))
        except asyncio.CancelledError:
            raise (Terminated if driver.stopped_by == signal.SIGTERM else KeyboardInterrupt) from None
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
    driver.tries.end()


async def _run(driver: "_Driver") -> None:
    """Run the driver. Signals cancel its task: an exception from a signal handler could hit any point of the loop."""
    main, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert main is not None

    def stop(number: signal.Signals) -> None:
        driver.stopped_by = number
        main.cancel()

    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        for number in before:
            if before[number] != signal.SIG_IGN:
                loop.add_signal_handler(number, stop, number)
    try:
        await driver.run()
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


@dataclass(slots=True)
class _ShardInFlight:
    """A shard that is not done yet."""

    shard: Shard
    worker: str = ""  # the worker that last began it
    elsewhere: set[str] = field(default_factory=set)  # workers that may take it; empty: all
    begun: bool = False  # whether a worker has begun the current attempt
    given_up: bool = False
    careful: bool = False  # whether the current attempt is the last, which rejects documents that end the process


@dataclass
class _Driver:
    shards: Iterator[Shard]
    task: Task
    settings: Settings
    listener: Listener
    address: str
    workers: set[str] = field(default_factory=set)  # workers that offer the requested resources
    checked: set[str] = field(default_factory=set)  # workers that run this version of the package
    replaced: set[str] = field(default_factory=set)  # workers that are being replaced
    lanes: set[asyncio.Task[None]] = field(default_factory=set)
    under_way: dict[int, tuple[_ShardInFlight, Future[Any]]] = field(default_factory=dict)  # by number of the attempt
    loading: dict[str, tuple[float, asyncio.Task[Any]]] = field(default_factory=dict)  # worker -> start time, request
    failed_starts: int = 0
    attempts: int = 0
    announced: bool = False
    seen: bool = False  # whether the driver can read files that workers commit
    exhausted: bool = False
    stopped_by: signal.Signals | None = None
    last_worker: float = field(default_factory=time.monotonic)  # when there was a worker
    client: Client = field(init=False)
    group: asyncio.TaskGroup = field(init=False)
    topic: str = field(init=False)  # Dask topic for messages from workers

    def __post_init__(self) -> None:
        self.tries = Tries(self.listener)

    async def run(self) -> None:
        """Run `IN_FLIGHT` lanes of shards per worker until no shards are left."""
        self.client = Client(self.address, asynchronous=True, timeout=_CONNECT_SECONDS, set_as_default=False)
        try:
            await self.client
        except (OSError, ValueError, TypeError, RuntimeError) as error:  # also raised for tls:// without certificates
            await self.client.close()
            raise PipelineError("engine.not_reached", address=self.address, reason=describe(error)) from error
        self.topic = f"spanmarker-{self.client.id}"
        self.last_worker = time.monotonic()
        async with self.client, asyncio.TaskGroup() as self.group:
            self.client.subscribe_topic(self.topic, self._hear)
            while self.lanes or not self.exhausted:
                await self._look()
                self.tries.check()
                for work, future in self.under_way.values():
                    if self._nowhere(work):
                        self.group.create_task(self._cancel(future))
                if self.workers and not self.announced:
                    await self._announce()
                # A cluster that scales up from zero workers does so only when work is queued.
                while (self.announced or not self.workers) and not self.exhausted and len(self.lanes) < self._width:
                    lane = self.group.create_task(self._lane())
                    self.lanes.add(lane)
                    lane.add_done_callback(self.lanes.discard)
                if self.lanes:
                    await asyncio.wait(self.lanes, timeout=_LOOK_SECONDS)
                else:
                    await asyncio.sleep(0.1)

    @property
    def _width(self) -> int:
        return IN_FLIGHT * max(1, len(self.workers))

    async def _look(self) -> None:
        """Update the set of workers that offer the requested resources; reject other versions of the package."""
        with self._losing():
            found = (await asyncio.wait_for(self.client.scheduler.identity(), _PATIENCE))["workers"]
        needed = self.settings.resources
        self.workers = {
            address
            for address, worker in found.items()
            if worker["status"] == "running"
            and all(worker["resources"].get(name, 0) >= needed[name] for name in needed)
        }
        if self.workers:
            self.last_worker = time.monotonic()
        elif time.monotonic() - self.last_worker > NO_WORKER_SECONDS:
            there = [f"  {address}: {_amounts(worker['resources'])}" for address, worker in found.items()]
            raise PipelineError(
                "engine.no_worker",
                address=self.address,
                seconds=f"{NO_WORKER_SECONDS:g}",
                asked=_amounts(needed),
                workers="\n".join(there[:10]) or "  none",
            )
        self.checked &= self.workers
        if new := self.workers - self.checked:
            # Call a function of the standard library: another version may be unable to unpickle our own functions.
            for worker, there in (await self._ask(new, pkgutil.resolve_name, "pipelines:CODE_VERSION")).items():
                if isinstance(there, str | ImportError | AttributeError):
                    if there != self.task.code:
                        raise PipelineError("worker.other_version", worker=worker, there=there, here=self.task.code)
                    self.checked.add(worker)

    async def _announce(self) -> None:
        """Load the model on all workers, raise errors of the model, and report the workers' environment."""
        for worker in self.workers - self.loading.keys():
            self.loading[worker] = time.monotonic(), asyncio.create_task(self._run_on(worker, facts_here, self.task))
        await asyncio.wait([request for _, request in self.loading.values()], timeout=_PATIENCE)
        answers = {}
        for worker, (_, request) in list(self.loading.items()):
            if request.done():
                with self._losing():
                    answers[worker] = request.result()
                del self.loading[worker]
            elif worker not in self.workers:
                request.cancel()
                del self.loading[worker]
        for answer in answers.values():
            if isinstance(answer, CodedError):
                raise answer
        if ready := next((answer for answer in answers.values() if isinstance(answer, dict)), None):
            where = {"dask": dask.__version__, "scheduler": self.address, "workers": str(len(self.workers))}
            self.listener.started(ready | where)
            self.announced = True
            for _, request in self.loading.values():  # They continue loading, and take their first shard afterwards.
                request.cancel()
        elif answers:  # The workers died and may be replaced. Those without an answer are still loading.
            self.failed_starts += 1
            if self.failed_starts >= TRIES:
                worker, error = next(iter(answers.items()))
                raise PipelineError("worker.start_failed", reason=f"worker {worker} failed ({describe(error)})")
        else:
            for worker, (since, _) in self.loading.items():
                if time.monotonic() - since > LOAD_SECONDS + _PATIENCE:
                    reason = f"worker {worker} was not ready after {LOAD_SECONDS:g} s"
                    raise PipelineError("worker.start_failed", reason=reason)

    async def _ask(self, workers: Iterable[str], function: Callable[..., Any], *args: Any) -> dict[str, Any]:
        """Return the result or exception of `function` for each worker that answers in time."""
        requests = {asyncio.create_task(self._run_on(worker, function, *args)): worker for worker in workers}
        done, late = await asyncio.wait(requests, timeout=_PATIENCE)
        for request in late:
            request.cancel()
        with self._losing():
            return {requests[request]: request.result() for request in done}

    async def _run_on(self, worker: str, function: Callable[..., Any], *args: Any) -> Any:
        return (await self.client.run(function, *args, workers=[worker], on_error="return"))[worker]

    async def _cancel(self, future: Future[Any]) -> None:
        with suppress(
            OSError
        ):  # If the scheduler no longer exists, the code that awaits the future receives the error.
            await self.client.cancel([future])

    async def _lane(self) -> None:
        """Process one shard after another, as long as the number of lanes is within the limit."""
        while len(self.lanes) <= self._width:
            self.tries.check()
            if (shard := next(self.shards, None)) is None:
                self.exhausted = True
                return
            self.tries.total += 1
            work = _ShardInFlight(shard)
            while not await self._attempt(work):
                pass

    async def _attempt(self, work: _ShardInFlight) -> bool:
        """Try a shard once and return whether no further attempt is needed."""
        self.attempts += 1
        number, name, work.begun = self.attempts, work.shard.name, False
        # Restrict the workers strictly, without allow_other_workers: Dask loses a task with a mere preference if there
        # were no workers for a while.
        failures, work.careful = self.tries.failures(name), self.tries.is_last(name)
        work.elsewhere = self.workers - {work.worker} if failures else set()
        future = self.client.submit(
            attempt_here,
            work.shard,
            self.task,
            self.topic,
            number,
            work.careful,
            # One name for all shards: the scheduler keeps every name forever.
            key=("spanmarker-shard", self.client.id, name, number),
            resources=self.settings.resources or None,
            workers=list(work.elsewhere) or None,
            priority=failures,
            pure=False,
        )
        self.under_way[number] = work, future
        try:
            outcome, worker, progress = await future
        except FutureCancelledError as error:
            if work.given_up:
                return True
            if self._nowhere(work) or self._needs_care(work):
                return False
            raise PipelineError("engine.lost", address=self.address, reason=error.reason) from error
        except OSError as error:  # Results arrive through the scheduler.
            raise PipelineError("engine.lost", address=self.address, reason=describe(error)) from error
        except KilledWorker:
            return self._failed(work, "it, or another shard queued on the same workers, repeatedly made its worker end")
        except Exception as error:  # an error of Dask, for example in unpickling
            return self._failed(work, describe(error))
        finally:
            del self.under_way[number]
            future.release()
        return await self._finished(work, outcome, worker, progress)

    async def _finished(self, work: _ShardInFlight, outcome: Outcome, worker: str, progress: ShardProgress) -> bool:
        """Record the outcome of an attempt and return whether the shard needs no further attempt."""
        work.worker, name = worker, work.shard.name
        if isinstance(outcome, Fault):
            raise outcome.error
        if isinstance(outcome, Done):
            if not self.seen and committed_entry(self.task.output, name) is None:
                raise PipelineError("output.not_seen", path=self.task.output, worker=worker)
            self.seen = True
            self.tries.done(name)
            self.listener.progressed(name, ShardProgress(*progress))
            self.listener.finished(outcome.entry, work.shard.n_bytes, worker)
            return True
        if not outcome.retry:
            self.tries.never(name, outcome.reason)
            return True
        if outcome.new_process and worker not in self.replaced:
            self.replaced.add(worker)
            # The nanny restarts the worker; without a nanny, its supervisor must do so.
            with suppress(OSError, ValueError):
                await self.client.restart_workers([worker], timeout=_PATIENCE, raise_for_error=False)
            self.replaced.discard(worker)
        return self._failed(work, outcome.reason)

    def _nowhere(self, work: _ShardInFlight) -> bool:
        return bool(work.elsewhere) and work.elsewhere.isdisjoint(self.workers)

    def _needs_care(self, work: _ShardInFlight) -> bool:
        """Return whether Dask has moved the last attempt to another worker without marking it as careful."""
        return self.tries.is_last(work.shard.name) and not work.careful

    def _failed(self, work: _ShardInFlight, reason: str) -> bool:
        work.given_up = not self.tries.again(work.shard.name, reason)
        return work.given_up

    def _hear(self, event: tuple[float, tuple[int, str, ShardProgress | None]]) -> None:
        """Handle a message from a worker: an attempt has begun, or has progressed since the last message."""
        number, worker, progress = event[1]
        if number not in self.under_way:
            return
        work, future = self.under_way[number]
        if progress is not None:
            self.listener.progressed(work.shard.name, ShardProgress(*progress))  # Messages arrive as lists.
            return
        # Dask reassigns the shard of a dead worker, so a second start of an attempt shows that its first worker died.
        lost = work.begun and self._failed(work, f"its worker {work.worker} ended or stopped responding")
        work.worker, work.begun = worker, True
        if lost or self._needs_care(work):
            self.group.create_task(self._cancel(future))

    @contextmanager
    def _losing(self) -> Iterator[None]:
        try:
            yield
        except (OSError, TimeoutError) as error:
            raise PipelineError("engine.lost", address=self.address, reason=describe(error)) from error


def _amounts(resources: dict[str, float]) -> str:
    return ", ".join(f"{name}={amount:g}" for name, amount in resources.items()) or "no resources"

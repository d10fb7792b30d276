"""What the Dask engine runs in a worker."""

import asyncio
import time

from distributed import get_worker

from pipelines.processes.thread_limits import prepare_process
from pipelines.shards.worker import Outcome, attempt, facts
from pipelines.task import Task
from schemas.shards import Shard

_TELL_SECONDS = 2.0  # between words of a worker about its shard

Done = tuple[int, int, int]  # documents, words, bytes of text


async def facts_here(task: Task) -> dict[str, str]:
    """Run in a Dask worker: load the model beside its event loop, which goes on to tell the scheduler that it lives."""
    prepare_process(task.threads)
    return await asyncio.to_thread(facts, task)


def attempt_here(shard: Shard, task: Task, topic: str, number: int, careful: bool) -> tuple[Outcome, str, Done]:
    """Run in a Dask worker: attempt a shard, and return what came of it, where, and what was not told yet.

    Args:
        shard: what to do.
        task: how.
        topic: where the driver listens.
        number: of the attempt.
        careful: whether it is the shard's last one, as in `attempt`.
    """
    prepare_process(task.threads)
    worker = get_worker()
    key = worker.get_current_task()
    untold, told = (0, 0, 0), time.monotonic()

    def progress(documents: int, words: int, n_bytes: int) -> None:
        nonlocal untold, told
        state = worker.state.tasks.get(key)
        if state is None or state.state == "cancelled":  # The driver has ended, or was ended.
            raise RuntimeError("nobody waits for this shard any more")
        untold = untold[0] + documents, untold[1] + words, untold[2] + n_bytes
        if time.monotonic() - told > _TELL_SECONDS:
            worker.log_event(topic, (number, worker.address, untold))
            untold, told = (0, 0, 0), time.monotonic()

    worker.log_event(topic, (number, worker.address, None))
    return attempt(shard, task, progress, careful), worker.address, untold

"""Functions that the Dask engine runs in a worker."""

import asyncio

from distributed import get_worker

from pipelines.processes.thread_limits import prepare_process
from pipelines.shards.progress import ShardProgress, Throttle
from pipelines.shards.worker import Outcome, attempt, facts
from pipelines.task import Task
from schemas.shards import Shard

_REPORT_SECONDS = 2.0  # seconds between progress messages


async def facts_here(task: Task) -> dict[str, str]:
    """Load the model in a Dask worker and return the description of its environment.

    Loading runs in a thread, so that the worker's event loop can keep sending heartbeats to the scheduler.

    Args:
        task: the shard task, which names the model.
    """
    prepare_process(task.threads)
    return await asyncio.to_thread(facts, task)


def attempt_here(
    shard: Shard, task: Task, topic: str, number: int, careful: bool
) -> tuple[Outcome, str, ShardProgress]:
    """Attempt a shard in a Dask worker.

    Args:
        shard: the shard.
        task: the shard task.
        topic: Dask topic for progress messages to the driver.
        number: number of the attempt, unique in the run.
        careful: whether this is the last attempt, which rejects documents that end the process.

    Returns:
        The outcome, the address of the worker, and the progress not yet reported.
    """
    prepare_process(task.threads)
    worker = get_worker()
    key = worker.get_current_task()
    reports = Throttle(lambda progress: worker.log_event(topic, (number, worker.address, progress)), _REPORT_SECONDS)

    def report(progress: ShardProgress) -> None:
        state = worker.state.tasks.get(key)
        if state is None or state.state == "cancelled":  # The driver has ended.
            raise RuntimeError("the driver has cancelled this shard")
        reports.add(progress)

    worker.log_event(topic, (number, worker.address, None))
    return attempt(shard, task, report, careful), worker.address, reports.rest

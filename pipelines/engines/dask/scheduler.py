"""The scheduler of a run: the one that the job names, or that of a cluster on this machine."""

import logging
import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import dask
from distributed import LocalCluster

from pipelines.engines import Settings
from pipelines.errors import PipelineError, describe

_LOCAL_CONFIG = {
    "distributed.scheduler.worker-ttl": "60s",
    # A shard is given up after TRIES deaths of its worker. Dask's own count also blames shards that were only queued
    # on that worker.
    "distributed.scheduler.allowed-failures": 10,
}


@contextmanager
def scheduler_of(settings: Settings) -> Iterator[str]:
    """Yield the address of a scheduler; a local one is closed with the block.

    Args:
        settings: address of a scheduler, or the size of a local cluster.

    Raises:
        PipelineError: `engine.not_started`.
    """
    if settings.scheduler:
        yield settings.scheduler
        return
    with (
        tempfile.TemporaryDirectory(prefix="spanmarker-dask-", ignore_cleanup_errors=True) as folder,
        dask.config.set(_LOCAL_CONFIG | {"temporary-directory": folder}),
        ExitStack() as stack,
    ):
        try:
            cluster = stack.enter_context(
                LocalCluster(
                    n_workers=settings.workers,
                    threads_per_worker=1,
                    dashboard_address="127.0.0.1:0",  # any free port; Dask listens there even without a dashboard
                    scheduler_kwargs={"dashboard": False},
                    resources=settings.resources or None,
                    memory_limit=0,  # --worker-memory sets the limit; Dask's own would pause workers
                    silence_logs=logging.CRITICAL,
                    preload=__name__,
                )
            )
        except (OSError, RuntimeError) as error:
            raise PipelineError("engine.not_started", reason=describe(error)) from error
        yield cluster.scheduler_address


def dask_setup(worker: object) -> None:
    """Ignore SIGINT, which reaches the whole process group, and leave it to the driver. Called in each local worker.

    Args:
        worker: the Dask worker; unused.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)

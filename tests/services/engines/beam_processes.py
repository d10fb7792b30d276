"""Beam's processes: those of a job, and a job service with a pool of workers, as on a cluster."""

import os
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager, suppress

import psutil

from tests.support.processes import children, environment, wait_for

_PARTS = "apache_beam.runners."


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def sdk_workers(job: int | None = None) -> list[psutil.Process]:
    """The worker processes of Beam's bundled runner below a job's process, or below this one."""
    return children(job or os.getpid(), "sdk_worker_main")


def descendants(job: int | None = None) -> list[psutil.Process]:
    """The processes below a job's that do its work: neither multiprocessing's helper nor the one that plans."""
    others = [*children(job or os.getpid(), "resource_tracker"), *children(job or os.getpid(), "processes.isolated")]
    return [each for each in children(job or os.getpid()) if each not in others]


@contextmanager
def cluster(log):
    """Start a job service and a pool that starts workers; yield Beam's options for them."""
    job, pool = free_port(), free_port()
    commands = (
        [_PARTS + "portability.local_job_service_main", "--job_port", str(job)],
        [_PARTS + "worker.worker_pool_main", "--service_port", str(pool)],
    )
    # The pool starts its workers as "python".
    first = environment(PATH=f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}")
    with ExitStack() as stack:
        for command in commands:
            process = subprocess.Popen([sys.executable, "-m", *command], env=first, stdout=log, stderr=log)
            stack.callback(_end, process)
        wait_for(lambda: listens(job) and listens(pool))
        yield [
            "--runner=PortableRunner",
            f"--job_endpoint=127.0.0.1:{job}",
            "--environment_type=EXTERNAL",
            f"--environment_config=127.0.0.1:{pool}",
        ]


def listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def _end(process: subprocess.Popen) -> None:
    children = psutil.Process(process.pid).children(recursive=True)
    for running in [*children, process]:
        with suppress(psutil.NoSuchProcess):
            running.kill()
    process.wait()

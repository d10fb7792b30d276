"""Beam's processes: those of a job, and a job service with a pool of workers, as on a cluster."""

import os
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress

import psutil

_PARTS = "apache_beam.runners."


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def sdk_workers(job: int | None = None) -> list[psutil.Process]:
    """The worker processes of Beam's bundled runner below a job's process, or below this one."""
    return [process for process in descendants(job) if "sdk_worker_main" in _command(process)]


def descendants(job: int | None = None) -> list[psutil.Process]:
    """The processes below a job's that do its work: neither multiprocessing's helper nor the one that plans."""
    found = psutil.Process(job).children(recursive=True)
    commands = {process: _command(process) for process in found}
    others = ("resource_tracker", "pipelines.processes.isolated")
    return [process for process, command in commands.items() if command and not any(map(command.__contains__, others))]


def assert_all_end(processes: list[psutil.Process], seconds: float = 10) -> None:
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE], alive


def _command(process: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
        return " ".join(process.cmdline())
    return ""


@contextmanager
def cluster(log):
    """Start a job service and a pool that starts workers; yield Beam's options for them."""
    job, pool = free_port(), free_port()
    commands = (
        [_PARTS + "portability.local_job_service_main", "--job_port", str(job)],
        [_PARTS + "worker.worker_pool_main", "--service_port", str(pool)],
    )
    # The pool starts its workers as "python".
    environment = {**os.environ, "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"}
    with ExitStack() as stack:
        for command in commands:
            process = subprocess.Popen([sys.executable, "-m", *command], env=environment, stdout=log, stderr=log)
            stack.callback(_end, process)
        for port in (job, pool):
            _wait_for(port)
        yield [
            "--runner=PortableRunner",
            f"--job_endpoint=127.0.0.1:{job}",
            "--environment_type=EXTERNAL",
            f"--environment_config=127.0.0.1:{pool}",
        ]


def _wait_for(port: int) -> None:
    for _ in range(300):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise TimeoutError(f"nothing listens on port {port}")


def _end(process: subprocess.Popen) -> None:
    children = psutil.Process(process.pid).children(recursive=True)
    for running in [*children, process]:
        with suppress(psutil.NoSuchProcess):
            running.kill()
    process.wait()

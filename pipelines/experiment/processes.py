"""Executes runs of an experiment in processes, several at once, and measures their resource usage."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from pipelines.experiment.runs import LOG, Run

_POLL = 0.2  # interval in seconds
_PARTING = 20.0  # seconds that a process has to end after SIGTERM


@dataclass(frozen=True)
class Ended:
    """Exit status and resource usage of a run's process.

    Attributes:
        code: exit code; for a process killed by a signal, the negative signal number.
        seconds: wall time.
        cpu_seconds: CPU time of all its threads and of the child processes it waited for.
        peak_bytes: peak memory of the process, or of a child process it waited for.
    """

    code: int
    seconds: float
    cpu_seconds: float
    peak_bytes: int


def run_all(runs: list[Run], workers: int, threads: int, ended: Callable[[Run, Ended], None]) -> None:
    """Execute the commands of runs, `workers` at once. Their output goes to the log in the folder of the run.

    No process remains when this function returns or raises.

    Args:
        runs: the runs, in order of execution.
        workers: number of concurrent processes.
        threads: CPU threads per process, set by OMP_NUM_THREADS and similar variables.
        ended: called with each finished run.
    """
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(names, str(threads)), "TOKENIZERS_PARALLELISM": "false"}
    waiting = list(reversed(runs))
    alive: dict[int, tuple[Run, subprocess.Popen[bytes], float]] = {}
    try:
        while waiting or alive:
            while waiting and len(alive) < workers:
                run = waiting.pop()
                run.begin()
                with open(run.folder / LOG, "ab") as log:
                    process = subprocess.Popen(
                        run.command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment
                    )
                alive[process.pid] = run, process, time.monotonic()
            time.sleep(_POLL)
            for pid in list(alive):
                found, status, usage = os.wait4(pid, os.WNOHANG)
                if not found:
                    continue
                run, process, began = alive.pop(pid)
                process.returncode = os.waitstatus_to_exitcode(status)
                peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
                cpu = usage.ru_utime + usage.ru_stime
                ended(run, Ended(process.returncode, time.monotonic() - began, cpu, peak))
    finally:
        _end([process for _, process, _ in alive.values()])


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
    until = time.monotonic() + _PARTING
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, until - time.monotonic()))
        if process.poll() is None:
            process.kill()
            process.wait()

"""Runs the runs of an experiment, each a process, some at once, and learns what each took."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from pipelines.experiment.runs import LOG, Run

_POLL = 0.2  # seconds
_PARTING = 20.0  # seconds that a run that is told to end has for it


@dataclass(frozen=True)
class Ended:
    """How a run's process ended.

    Attributes:
        code: its exit code; minus the signal that killed it.
        seconds: from start to end.
        cpu_seconds: of all its threads, and of processes that it waited for.
        peak_bytes: most memory that it, or a process that it waited for, held.
    """

    code: int
    seconds: float
    cpu_seconds: float
    peak_bytes: int


def run_all(runs: list[Run], workers: int, threads: int, ended: Callable[[Run, Ended], None]) -> None:
    """Run the command of each, `workers` at once; what they say goes to the log in their folder.

    However this ends, none of its processes is left.

    Args:
        runs: in the order in which they start.
        workers: processes at once.
        threads: CPU threads of each, told by OMP_NUM_THREADS and its like.
        ended: is called as each ends.
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

"""A real Dask scheduler and workers on this machine, each a process, for the tests to use and to kill."""

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.support.processes import environment, wait_for


class Cluster:
    """Starts its scheduler on entry and kills all that it started on exit. Logs lie in `folder`."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        named = {f"DASK_DISTRIBUTED__{name}": value for name, value in settings.items()}
        self.environment = environment(killers=True, OMP_NUM_THREADS="1", **named)
        self.processes: list[subprocess.Popen] = []

    def __enter__(self) -> "Cluster":
        self.scheduler = self._start("scheduler", "dask_scheduler", "--port", "0", "--no-dashboard")
        self.address = self._wait(self.scheduler, r"Scheduler at: +(tcp://[\d.]+:\d+)")
        return self

    def __exit__(self, *error: object) -> None:
        for process in self.processes:
            with suppress(ProcessLookupError):  # with the worker below its nanny, stopped or not
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def worker(self, *options: str, preload: str = "") -> subprocess.Popen:
        """Start a worker; `preload` is Python that it runs first. See `ready`."""
        if preload:
            file = self.folder / f"preload{len(self.processes)}.py"
            file.write_text(preload)
            options = (*options, "--preload", str(file))
        name = f"worker{len(self.processes)}"
        options = ("--nthreads", "1", "--no-dashboard", "--name", name, "--local-directory", str(self.folder), *options)
        return self._start(name, "dask_worker", self.address, *options)

    def ready(self, worker: subprocess.Popen) -> str:
        """Wait until a worker is registered; return its address."""
        address = self._wait(worker, r"Start worker at: +(tcp://[\d.]+:\d+)")
        self._wait(worker, r"(Registered to)")
        return address

    def _start(self, name: str, module: str, *options: str) -> subprocess.Popen:
        command = [sys.executable, "-m", f"distributed.cli.{module}", "--host", "127.0.0.1", *options]
        with (self.folder / f"{name}.log").open("w") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=log, env=self.environment, cwd=self.folder, start_new_session=True
            )
        process.log = self.folder / f"{name}.log"  # type: ignore[attr-defined]
        self.processes.append(process)
        return process

    def _wait(self, process: subprocess.Popen, pattern: str) -> str:
        found: list[re.Match] = []
        wait_for(lambda: found.extend(re.finditer(pattern, process.log.read_text())) or found, process=process)
        return found[0][1]

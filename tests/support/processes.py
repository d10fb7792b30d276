"""Commands in their own processes: start, wait, and find the processes that are left."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
#: On PYTHONPATH, makes some texts end, stop or slow down the process that works on them.
KILLERS = ROOT / "tests" / "faults" / "killers"


def environment(killers: bool = False, **more: str) -> dict[str, str]:
    """The environment of processes that run this project from wherever they start."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(map(str, [KILLERS, ROOT][not killers :]))} | more


def start(*words: object, killers: bool = False, cwd: Path | None = None, **more: str) -> subprocess.Popen:
    """Start a `spanmarker` command as the leader of a process group; what it prints is in its `stdout`."""
    return subprocess.Popen(
        [sys.executable, "-m", "pipelines.cli", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=cwd,
        env=environment(killers, **more),
        start_new_session=True,
    )


def finish(process: subprocess.Popen, code: int = 0) -> str:
    """Wait for a command that ends with an exit code and without a traceback; return what it printed."""
    text = process.communicate(timeout=600)[0]
    assert process.returncode == code, text
    assert "Traceback" not in text
    return text


def wait_for(condition: Callable[[], object], seconds: float = 90, process: subprocess.Popen | None = None) -> None:
    """Wait until something comes about, while a process goes on."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came about"
        assert process is None or process.poll() is None, process.communicate()[0]
        time.sleep(0.02)


def shards_done(output: Path) -> int:
    return len(list((output / "manifest").glob("*.json")))


def wait_for_shards(output: Path, count: int, process: subprocess.Popen | None = None) -> None:
    wait_for(lambda: shards_done(output) >= count, process=process)


def children(pid: int, words: str = "", recursive: bool = True) -> list[psutil.Process]:
    """The running processes below another whose command holds some words."""
    found = []
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(pid).children(recursive=recursive):
            with suppress(psutil.NoSuchProcess):  # It ended meanwhile, or has ended and waits for its parent to see.
                if words in " ".join(child.cmdline()) and child.cmdline():
                    found.append(child)
    return found


def assert_all_end(processes: list[psutil.Process], seconds: float = 20) -> None:
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    assert not [each for each in alive if each.is_running() and each.status() != psutil.STATUS_ZOMBIE], alive

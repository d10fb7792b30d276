"""Processes that an engine starts on this machine: how they start, and how they exit with their parent."""

import multiprocessing
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any


def start(work: Callable[..., None], *values: Any, daemon: bool) -> tuple[BaseProcess, Connection]:
    """Start a new process that runs `work(connection, *values)`; return the process and our end of the connection.

    The process starts with SIGINT blocked: Ctrl-C reaches the whole process group, and the parent decides what to do.

    Args:
        work: the function to run.
        values: its arguments after the connection.
        daemon: whether the process is a daemon of `multiprocessing`.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(theirs, *values), daemon=daemon)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    theirs.close()  # Otherwise the end of the process would not close the connection.
    return process, ours


def exit_with_parent(deed: Callable[[], None]) -> None:
    """Call a function when the parent process has ended for any reason: another run may start from then on.

    Args:
        deed: the function, called in a thread of this process.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        deed()

    threading.Thread(target=watch, name="watch-parent", daemon=True).start()

"""Processes that an engine starts on this machine: how they start, and how they end with their parent."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any


def start(work: Callable[..., None], *values: Any, daemon: bool) -> tuple[BaseProcess, Connection]:
    """Start a fresh process that does `work(connection, *values)`; return it and the other end of the connection.

    The process begins with SIGINT blocked: Ctrl-C reaches the whole group, and it is for this one to decide.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(theirs, *values), daemon=daemon)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    theirs.close()  # Else the end of the process would not end the connection.
    return process, ours


def exit_with_parent(deed: Callable[[], None]) -> None:
    """Do `deed` when the process that started this one is gone, however it went: another run may begin then."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        deed()

    threading.Thread(target=watch, name="watch-parent", daemon=True).start()


def cores() -> int:
    """Return how many CPU cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

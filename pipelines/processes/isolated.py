"""A process for work that may crash: reading damaged files, or texts that crash a library.

A library that aborts (Arrow on a damaged footer), runs out of memory or never returns ends its process. Such
work runs in an `IsolatedProcess`, which is replaced when it dies, so that one bad file costs only that file.
"""

import atexit
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from multiprocessing.connection import Connection, Pipe
from typing import Any

from pipelines.processes.exit_codes import EXIT_MEMORY, describe_exit
from pipelines.processes.memory import rss_bytes

_WATCH_SECONDS = 0.2


class ProcessDied(Exception):
    """The process ended during its work; the message gives the reason."""


class IsolatedProcess:
    """A process that runs functions. It starts when it is first needed and serves one thread at a time.

    Functions are sent by name, so they must be importable. They see this process's environment variables as of
    each call. Their exceptions are raised in this process.

    Attributes:
        max_bytes: limit of resident memory, in bytes; the process ends itself above it. 0 means no limit.
    """

    def __init__(self, max_bytes: int = 0) -> None:
        self.max_bytes = max_bytes
        self._sent: _Settings | None = None  # as last sent to the process
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def call(self, function: Callable[..., Any], *args: Any, seconds: float = 0) -> Any:
        """Run `function(*args)` in the process and return its result.

        Args:
            function: the function to run; it must pickle.
            args: its arguments, which must pickle.
            seconds: time after which the process is killed; 0 means no limit.

        Raises:
            ProcessDied: the process ended, or was killed because its time was up.
        """
        (value,) = self.each(_once, function, args, seconds=seconds)  # to the end, so that the process is kept
        return value

    def each(self, function: Callable[..., Iterator[Any]], *args: Any, seconds: float = 0) -> Iterator[Any]:
        """Run the generator `function(*args)` in the process and yield its items as they arrive.

        Args:
            function: the generator function to run; it must pickle.
            args: its arguments, which must pickle.
            seconds: time per item after which the process is killed; 0 means no limit.

        Raises:
            ProcessDied: the process ended, or was killed because its time was up.
        """
        connection = self._connected()
        ended = False
        try:
            settings = dict(os.environ), self.max_bytes
            connection.send((function, args, None if settings == self._sent else settings))
            self._sent = settings
            while True:
                if seconds and not connection.poll(seconds):
                    raise ProcessDied(f"it took more than {seconds:g} s")
                kind, value = connection.recv()
                if kind != "item":
                    break
                yield value
            ended = True
        except (EOFError, OSError) as error:
            assert self._process is not None
            raise ProcessDied(describe_exit(self._process.wait())) from error
        finally:
            if not ended:
                self.close()
        if kind == "error":
            raise value

    @property
    def running(self) -> bool:
        """Whether the process is running. A running process keeps the state that earlier calls left in it."""
        return self._process is not None and self._process.poll() is None

    def close(self) -> None:
        """End the process; the next call starts another."""
        if self._process is not None and self._connection is not None:
            self._connection.close()
            self._process.kill()
            self._process.wait()
        self._process = self._connection = self._sent = None

    def _connected(self) -> Connection:
        if self._process is not None and self._process.poll() is not None:
            self.close()  # The process ended between two calls.
        if self._connection is None:
            ours, theirs = Pipe()
            # Not with multiprocessing: it forbids children of daemons, and workers of engines are daemons.
            self._process = subprocess.Popen(
                [sys.executable, "-c", _MAIN, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # An aborting library prints messages there that do not help a user.
            )
            theirs.close()  # Otherwise the end of the process would not close the connection.
            self._connection = ours
        return self._connection


@cache
def shared_process() -> IsolatedProcess:
    """Return the isolated process shared by all planning in this process."""
    process = IsolatedProcess()
    atexit.register(process.close)
    return process


_MAIN = "import sys; from pipelines.processes.isolated import serve; serve(int(sys.argv[1]))"
_Settings = tuple[dict[str, str], int]  # environment variables, bytes of memory


def serve(descriptor: int) -> None:
    """Run the functions that arrive through a connection until it closes: the main loop of an isolated process.

    Args:
        descriptor: file descriptor of the connection.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group, and the parent decides.
    limit = [0]
    threading.Thread(target=_watch, args=(os.getppid(), limit), name="watch", daemon=True).start()
    connection = Connection(descriptor)
    while True:
        try:
            function, args, settings = connection.recv()
        except (EOFError, OSError):
            os._exit(0)
        if settings is not None:
            environment, limit[0] = settings
            os.environ.clear()
            os.environ.update(environment)
        try:
            for item in function(*args):
                connection.send(("item", item))
            answer: tuple[str, Any] = ("end", None)
        except Exception as error:
            answer = ("error", _sendable(error))
        try:
            connection.send(answer)
        except OSError:
            os._exit(0)


def isolate(count: int, work: Callable[[int, int], Any]) -> Iterator[tuple[int, int, Any]]:
    """Call `work(start, end)` over [0, count), and over halves where it fails, until each failing item is alone.

    Yields (start, end, result) in order; the result of a single failing item is its exception.

    Args:
        count: number of items.
        work: called with a half-open range of items.

    >>> list(isolate(3, lambda start, end: [10 // n for n in (2, 0, 5)[start:end]]))
    [(0, 1, [5]), (1, 2, ZeroDivisionError('integer division or modulo by zero')), (2, 3, [2])]
    """
    pending = [(0, count)] if count else []
    while pending:
        start, end = pending.pop()
        try:
            result = work(start, end)
        except Exception as error:
            if end - start > 1:
                middle = (start + end) // 2
                pending += [(middle, end), (start, middle)]
                continue
            # The traceback would keep the objects of the failed work alive as long as the exception.
            result = error.with_traceback(None)
        yield start, end, result


def _once(function: Callable[..., Any], args: tuple[Any, ...]) -> Iterator[Any]:
    yield function(*args)


def _sendable(error: Exception) -> Exception:
    """Return an error that another process can unpickle."""
    error = error.with_traceback(None)
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _watch(parent: int, limit: list[int]) -> None:
    """End this process when its parent has ended or it uses too much memory; `limit` holds one number of bytes or 0."""
    while os.getppid() == parent:
        if limit[0] and rss_bytes() > limit[0]:
            os._exit(EXIT_MEMORY)
        time.sleep(_WATCH_SECONDS)
    os._exit(0)

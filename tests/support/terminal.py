"""A command in a pseudo-terminal: what it shows, and when."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from itertools import pairwise

from tests.support.processes import environment

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A `spanmarker` command in a pseudo-terminal.

    Args:
        words: words of the command line.
        killers: see `tests.support.processes.environment`.
        size: columns and lines.

    Attributes:
        seen: what the command wrote, in pieces, each with the time in seconds since the start.
    """

    def __init__(self, *words: object, killers: bool = False, size: tuple[int, int] = (120, 40)) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        more = {"TERM": "xterm", "COLUMNS": str(size[0]), "LINES": str(size[1])}
        self.began = time.monotonic()
        self.seen: list[tuple[float, str]] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pipelines.cli", *map(str, words)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment(killers, **more),
            start_new_session=True,
        )
        os.close(slave)

    def read(self, until: Callable[[str], bool], seconds: float = 120) -> str:
        """Read until something is true of the text, or the command ends; return the text."""
        deadline = time.monotonic() + seconds
        while not until(self.text):
            assert time.monotonic() < deadline, self.text[-2000:]
            ready, _, _ = select.select([self._master], [], [], 0.2)
            if ready:
                try:
                    data = os.read(self._master, 1 << 16)
                except OSError:  # Linux says so at the end.
                    break
                if not data:
                    break
                piece = _ESCAPES.sub("", data.decode("utf-8", "replace"))
                self.seen.append((time.monotonic() - self.began, piece))
        return self.text

    def end(self, seconds: float = 120) -> int:
        """Read until the command ends; return its exit code."""
        self.read(lambda text: False, seconds)
        os.close(self._master)
        return self.process.wait(60)

    @property
    def text(self) -> str:
        """What the command wrote so far, without control sequences."""
        return "".join(piece for _, piece in self.seen)

    @property
    def longest_silence(self) -> float:
        """The longest time in seconds between two pieces."""
        times = [moment for moment, _ in self.seen]
        return max(after - before for before, after in pairwise(times))

    def when(self, pattern: str) -> float:
        """The time in seconds since the start when a pattern was first shown."""
        return next(moment for moment, piece in self.seen if re.search(pattern, piece))

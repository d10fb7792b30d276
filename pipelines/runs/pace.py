"""The remaining time of work, estimated from what is done."""

import time


class Pace:
    """Estimates the remaining time of some work.

    The estimate is made from the average speed whenever work is added, and counts down in between, so that it neither
    jumps nor disappears if work is added once a minute.

    Args:
        total: units of work; None if that is unknown.
        done: units that were done before the start, and tell nothing about the speed.

    Attributes:
        total: units of work, or None.
        done: units done so far, at most `total`.
        start: time of the start, by the monotonic clock in seconds.
    """

    def __init__(self, total: float | None = None, done: float = 0) -> None:
        self.total, self.start = total, time.monotonic()
        self._before = self._sum = done
        self._added = self.start

    @property
    def done(self) -> float:
        """Units done so far. A report may exceed what was planned, and a failed attempt takes units away."""
        done = max(self._sum, 0.0)
        return done if self.total is None else min(done, self.total)

    @property
    def share(self) -> float | None:
        """Share of the work that is done, from 0 to 1; None if the total is unknown."""
        if self.total is None:
            return None
        return self.done / self.total if self.total else 1.0

    def add(self, count: float) -> None:
        """Add units of work.

        Args:
            count: number of units; negative if work has to be done again.
        """
        self._sum += count
        self._added = time.monotonic()

    def elapsed(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self.start

    def left(self) -> float | None:
        """Return the estimate of the remaining seconds.

        Returns:
            None before anything is done, if the total is unknown, and if it was wrong, because more is done.
        """
        done, added = self._sum, self._added  # Another thread may add work in the meantime.
        new = done - self._before
        if self.total is None or new <= 0 or done > self.total:
            return None
        rest, now = self.total - done, time.monotonic()
        counting_down = rest * max(added - self.start, 1e-9) / new - (now - added)
        # Work that is late is as slow as it has been, including the time since it was last added.
        return max(counting_down, 0.0) if counting_down > 1 or not rest else rest * (now - self.start) / new

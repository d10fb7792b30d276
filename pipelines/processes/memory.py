"""Memory of this process."""

import resource
import sys


def peak_rss_bytes() -> int:
    """Return the most memory that this process has held so far."""
    # Not getrusage where it can be helped: its peak is that of the process that started this one, if that is larger.
    if (peak := _status("VmHWM")) is not None:
        return peak
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def rss_bytes() -> int:
    """Return the memory that this process holds now; where the system doesn't tell, the most it has held."""
    held = _status("VmRSS")
    return peak_rss_bytes() if held is None else held


def _status(name: str) -> int | None:
    """Return a line of Linux's account of this process, in bytes."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith(f"{name}:"))
    except (OSError, StopIteration):
        return None

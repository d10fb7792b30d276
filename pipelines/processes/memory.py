"""Memory use of this process."""

import resource
import sys


def peak_rss_bytes() -> int:
    """Return the peak resident memory of this process, in bytes."""
    # Avoid getrusage where possible: it reports the peak of the parent process if that is larger.
    if (peak := _status("VmHWM")) is not None:
        return peak
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def rss_bytes() -> int:
    """Return the resident memory of this process in bytes; its peak if the current value is not available."""
    held = _status("VmRSS")
    return peak_rss_bytes() if held is None else held


def _status(name: str) -> int | None:
    """Return the value of a line of `/proc/self/status`, in bytes; None where there is no such line."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith(f"{name}:"))
    except (OSError, StopIteration):
        return None

"""Memory of this process."""

import resource
import sys


def peak_rss_bytes() -> int:
    """Return the most memory that this process has held so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024

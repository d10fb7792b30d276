"""The CPU cores that a process may use: those it may run on, less what its control group forbids."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

_ROOT = Path("/")


def allowed_cores() -> int:
    """Return the number of CPU cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cores(root: Path = _ROOT) -> int:
    """Return the number of CPU cores available to this process, at least 1.

    A container that may use two cores of a large machine runs on all of them, but is stopped for a while whenever it
    has used its quota, so threads beyond the quota only make it slower.

    Args:
        root: where `/proc` and `/sys` are.
    """
    quota = _quota(root)
    return allowed_cores() if quota is None else max(1, min(allowed_cores(), int(quota)))


def threads_per_worker(workers: int) -> int:
    """Return the number of CPU threads of each of some workers: their share of the cores, at most OMP_NUM_THREADS.

    Args:
        workers: number of workers.
    """
    share = max(1, cores() // workers)
    given = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()  # a list has one number per nested level
    return min(share, int(given)) if given.isascii() and given.isdigit() and int(given) else share


def _quota(root: Path) -> float | None:
    """Return the least CPU quota of the process's control group and of those around it, in cores; None without any."""
    found = [quota for folder, read in _groups(root) if (quota := read(folder)) is not None]
    return min(found, default=None)


def _groups(root: Path) -> Iterator[tuple[Path, Callable[[Path], float | None]]]:
    """Yield the folders of control groups that limit the process, each with the function that reads its quota."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            base, read = root / "sys/fs/cgroup", _quota_v2
        elif "cpu" in controllers.split(","):
            base, read = root / "sys/fs/cgroup/cpu", _quota_v1
        else:
            continue
        # In a container the path may be that on the host; its own group is then mounted at the base.
        folder = base / path.lstrip("/")
        yield from ((each, read) for each in (folder, *folder.parents) if each.is_relative_to(base))


def _quota_v2(folder: Path) -> float | None:
    quota, _, period = _text(folder / "cpu.max").partition(" ")
    return _cores(quota, period)


def _quota_v1(folder: Path) -> float | None:
    return _cores(_text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us"))


def _cores(quota: str, period: str) -> float | None:
    """Return a quota in cores; None if it is unlimited ("max" or -1) or unreadable.

    >>> _cores("150000", "100000"), _cores("max", "100000"), _cores("-1", "100000")
    (1.5, None, None)
    """
    numbers = quota.strip(), period.strip()
    if not all(each.isascii() and each.isdigit() and int(each) for each in numbers):
        return None
    return int(numbers[0]) / int(numbers[1])


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""

"""Coordination of the processes of a run: ranks, work done by one process for all, and exchange of values."""

from collections.abc import Callable
from datetime import timedelta
from functools import cache
from typing import TypeVar

import torch.distributed as dist

Value = TypeVar("Value")

#: Timeout of processes that wait while one scores a large data set or writes the bundle.
PATIENCE = timedelta(hours=24)


def rank() -> int:
    """Return the number of this process, from 0."""
    return dist.get_rank() if _several() else 0


def world_size() -> int:
    """Return the number of processes."""
    return dist.get_world_size() if _several() else 1


def gather(value: Value) -> list[Value]:
    """Return the values of all processes, in order of rank, to each of them.

    Args:
        value: value of this process; it must be picklable.
    """
    if not _several():
        return [value]
    values: list[Value | None] = [None] * dist.get_world_size()
    dist.all_gather_object(values, value, group=_group())
    return values  # type: ignore[return-value]


def on_rank_zero(work: Callable[[], Value]) -> Value:
    """Run a function in the first process and return its result in all; an exception is raised in all.

    Args:
        work: the function.
    """
    if not _several():
        return work()
    outcome: list[tuple[Value | None, BaseException | None]] = [(None, None)]
    if dist.get_rank() == 0:
        try:
            outcome = [(work(), None)]
        except Exception as error:
            outcome = [(None, error)]
    dist.broadcast_object_list(outcome, src=0, group=_group())
    value, failure = outcome[0]
    if failure is not None:
        raise failure
    return value  # type: ignore[return-value]


def wait_for_all() -> None:
    """Wait until all processes have called this function."""
    if _several():
        dist.barrier(group=_group())


def leave() -> None:
    """Leave the process group."""
    if _several():
        _group.cache_clear()
        dist.destroy_process_group()


@cache
def _group() -> dist.ProcessGroup:
    """Return a CPU process group with a long timeout, for the exchange of Python objects."""
    return dist.new_group(backend="gloo", timeout=PATIENCE)


def _several() -> bool:
    return dist.is_available() and dist.is_initialized()

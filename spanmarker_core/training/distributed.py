"""The processes of one run: what each works on, what one does for all, and what they tell each other."""

from collections.abc import Callable
from datetime import timedelta
from functools import cache
from typing import TypeVar

import torch.distributed as dist

Value = TypeVar("Value")

#: How long processes wait for one that works for all: to score long data and write the bundle.
PATIENCE = timedelta(hours=24)


def rank() -> int:
    """Return this process's number, from 0."""
    return dist.get_rank() if _several() else 0


def world_size() -> int:
    """Return how many processes there are."""
    return dist.get_world_size() if _several() else 1


def gather(value: Value) -> list[Value]:
    """Return the values of all processes, in their order, to each of them."""
    if not _several():
        return [value]
    values: list[Value | None] = [None] * dist.get_world_size()
    dist.all_gather_object(values, value, group=_group())
    return values  # type: ignore[return-value]


def on_rank_zero(work: Callable[[], Value]) -> Value:
    """Let the first process work, and all have the result; what it raises, all raise."""
    if not _several():
        return work()
    told: list[tuple[Value | None, BaseException | None]] = [(None, None)]
    if dist.get_rank() == 0:
        try:
            told = [(work(), None)]
        except Exception as error:
            told = [(None, error)]
    dist.broadcast_object_list(told, src=0, group=_group())
    value, failure = told[0]
    if failure is not None:
        raise failure
    return value  # type: ignore[return-value]


def wait_for_all() -> None:
    """Return when all processes have come here."""
    if _several():
        dist.barrier(group=_group())


def leave() -> None:
    """Part from the other processes."""
    if _several():
        _group.cache_clear()
        dist.destroy_process_group()


@cache
def _group() -> dist.ProcessGroup:
    """Return the processes as they tell each other things: by CPU, and with patience."""
    return dist.new_group(backend="gloo", timeout=PATIENCE)


def _several() -> bool:
    return dist.is_available() and dist.is_initialized()

"""Engines map the shard task over the shards that are left. Nothing else differs between them.

An engine is a function of (shards, task, settings, listener) that returns when every shard is committed and
raises a coded error otherwise. It is named here by its module, which is imported when it is used.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

from pipelines.task import Task
from schemas.manifest import Entry
from schemas.shards import Shard

#: Name -> module that holds its `run`.
ENGINES = {"local": "pipelines.engines.local"}


@dataclass(frozen=True, slots=True)
class Settings:
    """Where and how wide an engine runs; changes no row."""

    workers: int
    threads: int  # CPU threads of one worker


class Listener(Protocol):
    """What an engine tells while it runs."""

    def started(self, facts: dict[str, str]) -> None:
        """Say what the workers run on: device, dtype, batches. Called once."""

    def progressed(self, shard: str, documents: int, words: int, n_bytes: int) -> None:
        """Say that more of a shard is tagged."""

    def finished(self, entry: Entry, n_bytes: int) -> None:
        """Say that a shard of this many planned bytes is committed."""

    def retried(self, shard: str, reason: str) -> None:
        """Say that a shard failed and is tried again."""


Engine = Callable[[Iterator[Shard], Task, Settings, Listener], None]


def engine(name: str) -> Engine:
    """Return the engine of that name, one of ENGINES."""
    return import_module(ENGINES[name]).run

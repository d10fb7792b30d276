"""Progress of long operations: the protocol through which an operation tells how far it is."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class Progress(Protocol):
    """Receives the progress of an operation. Calls come from one thread and are cheap enough for every batch."""

    def phase(
        self, name: str, total: float | None = None, unit: str = "", done: float = 0
    ) -> AbstractContextManager[None]:
        """Return a context in which a phase of the operation runs. A phase within another one interrupts it.

        Args:
            name: what is done, such as "scoring dev".
            total: units of work in the phase; None if that is unknown.
            unit: plural of the unit, such as "words".
            done: units that were done earlier, for example before a checkpoint.
        """

    def advance(self, count: float = 0, shown: str | None = None) -> None:
        """Add work to the current phase.

        Args:
            count: units done since the last call.
            shown: current values worth showing, such as "loss 0.03"; None leaves the last ones.
        """


class _Silent:
    @contextmanager
    def phase(self, name: str, total: float | None = None, unit: str = "", done: float = 0) -> Iterator[None]:
        yield

    def advance(self, count: float = 0, shown: str | None = None) -> None:
        pass


#: Ignores all progress.
SILENT: Progress = _Silent()

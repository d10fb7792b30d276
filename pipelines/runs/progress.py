"""What a run shows while it goes on: a bar on a terminal, a plain line now and then elsewhere."""

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from schemas.manifest import Entry

_LINE_SECONDS = 30.0


class ProgressDisplay:
    """An engine's `Listener` that prints. Progress counts planned bytes, so the time left needs no document count.

    Args:
        console: where to print.
        intent: what is going to be done, printed below the line about the machine.
        total_bytes: of the shards that will run.
    """

    def __init__(self, console: Console, intent: str, total_bytes: int) -> None:
        self.console = console
        self.intent = intent
        self.total_bytes = max(1, total_bytes)
        self.documents = self.words = self.done_bytes = 0
        self._partial: dict[str, int] = {}
        self._start = self._last_line = time.monotonic()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._bar = self._progress.add_task("loading the model", total=self.total_bytes)

    def __enter__(self) -> "ProgressDisplay":
        self._progress.start()
        return self

    def __exit__(self, *error: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._progress.stop()

    def started(self, facts: dict[str, str]) -> None:
        """Print the machine's line and what will be done."""
        line = ", ".join(f"{name}: {value}" for name, value in facts.items())
        self.console.print(f"{line}\n{self.intent}", markup=False, highlight=False, soft_wrap=True)
        self._progress.update(self._bar, description="tagging")
        self._start = time.monotonic()  # Loading the model is not tagging.

    def progressed(self, shard: str, documents: int, words: int, n_bytes: int) -> None:
        """Count what was tagged since the last call."""
        self.documents += documents
        self.words += words
        self._partial[shard] = self._partial.get(shard, 0) + n_bytes
        self._show()

    def finished(self, entry: Entry, n_bytes: int, worker: str) -> None:
        """Count a shard."""
        self._partial.pop(entry.shard, None)
        self.done_bytes += n_bytes
        self._show()

    def retried(self, shard: str, reason: str) -> None:
        """Say that a shard is tried again."""
        self._partial.pop(shard, None)
        self.console.print(f"shard {shard} is tried again: {reason}", markup=False)

    def failed(self, shard: str, reason: str) -> None:
        """Take back what was tagged of a shard that failed for good."""
        self._partial.pop(shard, None)
        self._show()

    def _show(self) -> None:
        now = time.monotonic()
        # A shard's texts may be larger than the bytes that were planned for it (compressed files).
        done = min(self.done_bytes + sum(self._partial.values()), self.total_bytes)
        rate = f"{self.documents:,} documents, {self.words / max(now - self._start, 1e-9):,.0f} words/s"
        self._progress.update(self._bar, completed=done, description=rate)
        if not self.console.is_terminal and now - self._last_line >= _LINE_SECONDS:
            self._last_line = now
            left = (now - self._start) * (self.total_bytes - done) / max(done, 1)
            self.console.print(f"{done / self.total_bytes:.0%}, {rate}, about {left:,.0f} s left", markup=False)

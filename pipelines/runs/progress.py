"""Progress display of a run: a bar on a terminal, occasional plain lines elsewhere."""

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from pipelines.engines import Listener
from pipelines.report.printed import print_plain
from schemas.manifest import Entry

_LINE_SECONDS = 30.0


class ProgressDisplay(Listener):
    """A listener of engine events that prints progress.

    Progress is measured in planned bytes, so that the remaining time can be estimated without counting documents.

    Args:
        console: where to print.
        intent: description of the planned work, printed below the line about the environment.
        total_bytes: planned size of the shards to process, in bytes of text.
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
        """Print the environment of the workers and the planned work.

        Args:
            facts: description of the workers' environment.
        """
        line = ", ".join(f"{name}: {value}" for name, value in facts.items())
        print_plain(self.console, f"{line}\n{self.intent}")
        self._progress.update(self._bar, description="tagging")
        self._start = time.monotonic()  # Loading the model does not count as tagging.

    def progressed(self, shard: str, documents: int, words: int, n_bytes: int) -> None:
        """Add the progress since the last call.

        Args:
            shard: name of the shard.
            documents: documents processed since the last call.
            words: words processed since the last call.
            n_bytes: bytes of text processed since the last call.
        """
        self.documents += documents
        self.words += words
        self._partial[shard] = self._partial.get(shard, 0) + n_bytes
        self._show()

    def finished(self, entry: Entry, n_bytes: int, worker: str) -> None:
        """Add a committed shard.

        Args:
            entry: manifest entry of the shard.
            n_bytes: planned size in bytes of text.
            worker: name of the worker; unused.
        """
        self._partial.pop(entry.shard, None)
        self.done_bytes += n_bytes
        self._show()

    def retried(self, shard: str, reason: str) -> None:
        """Report a failed attempt and discard its progress.

        Args:
            shard: name of the shard.
            reason: why the attempt failed.
        """
        self._partial.pop(shard, None)
        self.console.print(f"retrying shard {shard}: {reason}", markup=False)

    def failed(self, shard: str, reason: str) -> None:
        """Discard the progress of a permanently failed shard.

        Args:
            shard: name of the shard.
            reason: why its last attempt failed.
        """
        self._partial.pop(shard, None)
        self._show()

    def _show(self) -> None:
        now = time.monotonic()
        # A shard's texts may exceed its planned size, for example in compressed files.
        done = min(self.done_bytes + sum(self._partial.values()), self.total_bytes)
        rate = f"{self.documents:,} documents, {self.words / max(now - self._start, 1e-9):,.0f} words/s"
        self._progress.update(self._bar, completed=done, description=rate)
        if not self.console.is_terminal and now - self._last_line >= _LINE_SECONDS:
            self._last_line = now
            left = (now - self._start) * (self.total_bytes - done) / max(done, 1)
            self.console.print(f"{done / self.total_bytes:.0%}, {rate}, about {left:,.0f} s left", markup=False)

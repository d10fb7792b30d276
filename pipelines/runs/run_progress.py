"""The progress of a run over shards, for its display, its log, its metrics and `spanmarker status`."""

import contextlib
import threading
from collections.abc import Callable
from types import TracebackType

from pipelines.engines import Listener
from pipelines.errors import PipelineError
from pipelines.output.progress_file import RunState, now, remove_state, write_state
from pipelines.report.run_counts import rejects_in
from pipelines.runs.json_log import JsonLog
from pipelines.runs.pace import Pace
from pipelines.runs.progress import Display
from pipelines.shards.progress import ShardProgress
from schemas.manifest import Entry
from spanmarker_core.errors import CodedError, single_line
from spanmarker_core.text.counted import counted

#: Seconds between two versions of the file, and the number of versions per event in the log.
INTERVAL, _VERSIONS_PER_EVENT = 15.0, 2
_MAX_REASON = 500  # characters


class RunProgress(Listener):
    """A listener of engine events that adds up the progress of a run, and tells it while the block runs.

    Progress is measured in planned bytes, so that the remaining time can be estimated without counting documents.
    A file may have more or less text than bytes, because it is compressed or has other columns; the ratio is learned
    from finished shards.

    Args:
        output: the output folder, whose lock the caller holds.
        shards: number of shards to process.
        n_bytes: their planned size in bytes of text.
        verb: name of the command.
        display: shows the progress.
        log: receives an event every 30 seconds.
        check: raises an error if the run has lost the lock; nothing is then written to the output.
        verbose: whether to print the environment of the workers.

    Attributes:
        done_shards: number of shards committed.
    """

    def __init__(
        self,
        output: str,
        shards: int,
        n_bytes: int,
        verb: str,
        display: Display,
        log: JsonLog,
        check: Callable[[], None] = lambda: None,
        verbose: bool = False,
    ) -> None:
        self.output, self.shards, self.n_bytes = output, shards, n_bytes
        self.done_shards = 0
        self._doing = {"tag": "tagging", "prepare": "preparing"}[verb]
        self._display, self._log, self._check, self._verbose = display, log, check, verbose
        self._started = now()
        self._pace = Pace(max(n_bytes, 1))
        self._committed, self._told_bytes, self._counted = ShardProgress(), 0, 0
        self._partial: dict[str, ShardProgress] = {}
        self._failure = ""
        self._phase = contextlib.ExitStack()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tell, name="progress-file", daemon=True)

    def __enter__(self) -> "RunProgress":
        self._phase.enter_context(self._display.phase("starting the workers and loading the model"))
        write_state(self.output, self.state())
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._phase.close()
        self._over.set()
        self._thread.join()
        if isinstance(error, CodedError) and error.code == "output.lock_lost":
            return  # The file belongs to the other run.
        with contextlib.suppress(PipelineError) if error is not None else contextlib.nullcontext():
            if error is None:
                remove_state(self.output)
            else:
                self._check()
                reason = " ".join(getattr(error, "__notes__", ())) or str(error) or type(error).__name__
                write_state(self.output, self.state(single_line(reason, _MAX_REASON)))

    def state(self, error: str = "") -> RunState:
        """Return how far the run is.

        Args:
            error: the error that ended it, or nothing.
        """
        done, left = self._done, self._pace.left()
        return RunState(
            started=self._started,
            updated=now(),
            planned_shards=self.shards,
            done_shards=self.done_shards,
            planned_bytes=self.n_bytes,
            done_bytes=min(self._counted, self.n_bytes),
            documents=done.documents,
            words=done.words,
            entities=done.entities,
            rejects=done.rejects,
            words_per_second=round(done.words / max(self._pace.elapsed(), 1e-9), 1),
            eta_s=None if left is None else round(left, 1),
            last_failure=self._failure,
            error=error,
        )

    def interrupted(self) -> str:
        """Return what an interruption costs: what is kept, and what will be done again."""
        left = self.shards - self.done_shards
        kept = (
            f"{self.done_shards:,} of {counted(self.shards, 'shard')} of this run {_is(self.done_shards)} done and kept"
        )
        if not (again := [part for part in self._partial.values() if any(part)]):
            return f"{kept}."
        n_documents = sum(part.documents for part in again)
        what = f" ({counted(n_documents, 'finished document')})" if n_documents else ""
        return f"{kept}; {counted(min(len(again), left), 'shard')} under way{what} will be done again."

    def started(self, facts: dict[str, str]) -> None:
        """Show that the work begins; loading the model does not count.

        Args:
            facts: description of the workers' environment.
        """
        if self._verbose:
            self._display.say(", ".join(f"{name}: {value}" for name, value in facts.items()))
        self._phase.close()
        self._phase.enter_context(self._display.phase(self._doing, self._pace.total, "bytes"))
        self._pace = Pace(self._pace.total)

    def progressed(self, shard: str, progress: ShardProgress) -> None:
        """Add the progress since the last call.

        Args:
            shard: name of the shard.
            progress: the work since the last call.
        """
        self._partial[shard] = self._partial.get(shard, ShardProgress()).plus(progress)
        self._show()

    def finished(self, entry: Entry, n_bytes: int, worker: str) -> None:
        """Add a committed shard.

        Args:
            entry: manifest entry of the shard.
            n_bytes: planned size in bytes of text.
            worker: name of the worker; unused.
        """
        self._told_bytes += self._partial.pop(entry.shard, ShardProgress()).n_bytes
        counts = entry.counts
        whole = (counts["documents"], counts.get("words", 0), n_bytes, sum(entry.labels.values()), rejects_in(counts))
        self._committed = self._committed.plus(ShardProgress(*whole))
        self.done_shards += 1
        self._show()

    def retried(self, shard: str, reason: str) -> None:
        """Report a failed attempt and discard its progress.

        Args:
            shard: name of the shard.
            reason: why the attempt failed.
        """
        self._display.say(f"retrying shard {shard}: {reason}")
        self.failed(shard, reason)

    def failed(self, shard: str, reason: str) -> None:
        """Discard the progress of a failed shard.

        Args:
            shard: name of the shard.
            reason: why its last attempt failed.
        """
        self._failure = f"{shard}: {reason}"
        self._partial.pop(shard, None)
        self._show()

    @property
    def _done(self) -> ShardProgress:
        total = self._committed
        for part in list(self._partial.values()):  # another thread may ask
            total = total.plus(part)
        return total

    def _show(self) -> None:
        done, planned = self._done, self._committed.n_bytes
        ratio = planned / self._told_bytes if planned and self._told_bytes else 1.0
        before, self._counted = self._counted, planned + round(ratio * (done.n_bytes - planned))
        self._pace.add(self._counted - before)
        speed = done.words / max(self._pace.elapsed(), 1e-9)
        parts = [
            f"{self.done_shards:,} of {counted(self.shards, 'shard')}",
            counted(done.documents, "document"),
            *([counted(done.entities, "entity", "entities")] if self._doing == "tagging" else ()),
            *([f"{done.rejects:,} rejected"] if done.rejects else ()),
            f"{speed:,.0f} words/s",
        ]
        self._display.advance(self._counted - before, ", ".join(parts))

    def _tell(self) -> None:
        version = 0
        while not self._over.wait(INTERVAL):
            version += 1
            state = self.state()
            # The store may recover before the next version, and the run finds lasting faults itself, and a lost lock.
            with contextlib.suppress(PipelineError):
                self._check()
                write_state(self.output, state)
            if version % _VERSIONS_PER_EVENT == 0:
                with contextlib.suppress(PipelineError):
                    self._log.progress(state)


def _is(count: int) -> str:
    return "is" if count == 1 else "are"

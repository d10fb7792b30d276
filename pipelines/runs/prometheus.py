"""The file of `--metrics` in the Prometheus text format, for node_exporter's textfile collector or another scraper.

It is written when a run acquires the lock of its output, every 15 seconds, and when the run ends in any way; the last
version has a finish time and an exit code. Metrics `spanmarker_run_*` describe the run. Metrics `spanmarker_output_*`
describe all rows of the output; they are available after a run that ends with a report.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from prometheus_client import generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pipelines.errors import PipelineError, exit_code
from pipelines.output.overwrite import begins
from pipelines.output.progress_file import RunState
from pipelines.report.run_counts import RunCounts, rejects_in
from pipelines.shards.stats import STATUSES
from pipelines.storage import absolute, publish_bytes
from spanmarker_core.errors import CodedError

#: Seconds between updates.
INTERVAL = 15.0
#: Recognises metrics written by a run.
is_metrics = begins(b"# HELP spanmarker_run_")


class Metrics:
    """Writes the metrics file from the call of `begin` until the block ends.

    A run that does not acquire its output, or loses it to another run, writes nothing, because the file belongs to the
    other run.

    Args:
        path: a path or URL; None disables the file.
        output: output of the run, a label of every series, so that files of several jobs can be combined.
        counts: counters of the run.

    Attributes:
        values: values of the report, once they are available.
        state: returns how far the run is, once that is known.

    Raises:
        PipelineError: `output.not_writable`, from `begin`, or at the end of the block if it raised no other error.
    """

    def __init__(self, path: str | None, output: str, counts: RunCounts) -> None:
        self.path = None if path is None else absolute(path)
        self.output, self.counts = output, counts
        self.values: dict[str, Any] | None = None
        self.state: Callable[[], RunState] | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep_writing, name="metrics", daemon=True)

    def __enter__(self) -> "Metrics":
        return self

    def begin(self) -> None:
        """Write the file for the first time. Call this when the run holds the lock of its output."""
        if self.path is not None:
            self._write(None)
            self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.path is None:
            return
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        if isinstance(error, CodedError) and error.code in ("output.busy", "output.lock_lost"):
            return
        with contextlib.suppress(PipelineError) if error is not None else contextlib.nullcontext():
            self._write((error,))

    def _keep_writing(self) -> None:
        while not self._over.wait(INTERVAL):
            # The store may recover before the last update, which reports errors.
            with contextlib.suppress(PipelineError):
                self._write(None)

    def _write(self, end: tuple[BaseException | None] | None) -> None:
        assert self.path is not None
        state = self.state() if self.state else None
        publish_bytes(self.path, exposition(self.output, self.counts, self.values, end, state))


def exposition(
    output: str,
    counts: RunCounts,
    values: dict[str, Any] | None,
    end: tuple[BaseException | None] | None,
    state: RunState | None = None,
) -> bytes:
    """Return the contents of the file.

    Args:
        output: label of every series.
        counts: counters of the run.
        values: values of the report, if available.
        end: None while the run is active; then a tuple with the exception that ended it, or with None for success.
        state: how far the run is, if that is known.
    """
    error = end[0] if end else None
    shards = {"run": counts.shards, "skipped": counts.skipped, "failed": getattr(error, "count", 0)}
    metrics = _Gauges(output)
    metrics.add("run_start_timestamp_seconds", "Start time of the run.", counts.started_at)
    metrics.add("run_success", "1 if the run succeeded, 0 if it failed or is still active.", end == (None,))
    metrics.add("run_shards", "Shards of this run: run, done before, failed.", shards, "state")
    metrics.add("run_retries", "Retries of shards.", counts.retries)
    metrics.add_rows("run", "finished in this run", counts.counts, counts.reject_codes, counts.labels)
    metrics.add("run_stage_seconds", "Seconds by stage, all workers.", counts.stage_seconds, "stage")
    metrics.add("run_words_per_second", "Words per second in finished shards.", counts.words_per_second)
    if state is not None:
        metrics.add("run_planned_shards", "Shards that this run has to process.", state.planned_shards)
        metrics.add("run_planned_bytes", "Their size in bytes of text, as planned.", state.planned_bytes)
        metrics.add("run_done_bytes", "Bytes of text processed, unfinished shards included.", state.done_bytes)
        if end is None and state.eta_s is not None:
            metrics.add("run_eta_seconds", "Estimated seconds to the end of the run.", state.eta_s)
    if end is not None:
        metrics.add("run_finish_timestamp_seconds", "End time of the run.", time.time())
        metrics.add("run_exit_code", "Exit code of the last run.", exit_code(error))
    if values is not None:
        found = values["output"]
        codes, labels = found["rejects"]["by_code"], found["entities_by_label"]
        metrics.add_rows("output", "in the output", found["counts"], codes, labels)
        metrics.add("output_shards", "Finished shards in the output.", found["shards"])
    return generate_latest(metrics)


class _Gauges(Collector):
    """Gauges in the order in which they were added, each labelled with the output."""

    def __init__(self, output: str) -> None:
        self._output, self._families = output, list[Metric]()

    def collect(self) -> list[Metric]:
        return self._families

    def add(self, name: str, meaning: str, values: float | Mapping[str, float], label: str | None = None) -> None:
        """Add a gauge of one value, or of the values of a label."""
        family = GaugeMetricFamily(f"spanmarker_{name}", meaning, labels=["output", *([label] if label else [])])
        # Copy first: the run continues to count while this thread writes.
        for own, value in sorted(dict(values).items()) if isinstance(values, Mapping) else [("", values)]:
            texts = [self._output, own] if label else [self._output]
            family.add_metric([text.encode("utf-8", "backslashreplace").decode() for text in texts], value)
        self._families.append(family)

    def add_rows(
        self, scope: str, where: str, counts: Mapping[str, int], codes: Mapping[str, int], labels: Mapping[str, int]
    ) -> None:
        """Add the gauges that a run and its output have in common."""
        statuses = {status: counts.get(status, 0) for status in STATUSES}
        self.add(f"{scope}_documents", f"Documents {where}, by status.", statuses, "status")
        self.add(f"{scope}_entities", f"Entities {where}, by label.", labels, "label")
        self.add(f"{scope}_rejects", f"Rejects {where}, by code.", codes, "code")
        self.add(f"{scope}_all_rejects", f"Rejects {where}.", rejects_in(counts))
        self.add(f"{scope}_words", f"Words {where}.", counts.get("words", 0))

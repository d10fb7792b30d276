"""Metrics of a run for Prometheus.

`--metrics` names a file, for a scraper such as node_exporter's textfile collector, and `--metrics-push` a Pushgateway.

Both get them when a run acquires the lock of its output, every 15 seconds (file) or 30 seconds (gateway), and when the
run ends in any way; the last version has a finish time and an exit code. Metrics `spanmarker_run_*` describe the
run. Metrics `spanmarker_output_*` describe all rows of the output; they are available after a run that ends with a
report.
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
from pipelines.runs.pushgateway import Pushgateway
from pipelines.shards.stats import STATUSES
from pipelines.storage import absolute, publish_bytes
from spanmarker_core.errors import CodedError

#: Seconds between updates of the file, and between pushes.
INTERVAL, PUSH_INTERVAL = 15.0, 30.0
#: Recognises metrics written by a run.
is_metrics = begins(b"# HELP spanmarker_run_")

#: Every gauge: name without the prefix `spanmarker_` -> meaning, and its label beside `output`, or "".
GAUGES = {
    "run_start_timestamp_seconds": ("Start time of the run.", ""),
    "run_success": ("1 if the run succeeded, 0 if it failed or is still active.", ""),
    "run_shards": ("Shards of this run: run, done before, failed.", "state"),
    "run_retries": ("Retries of shards.", ""),
    **{
        f"{scope}_{name}": (meaning.format(where), label)
        for scope, where in (("run", "finished in this run"), ("output", "in the output"))
        for name, meaning, label in (
            ("documents", "Documents {}, by status.", "status"),
            ("entities", "Entities {}, by label.", "label"),
            ("rejects", "Rejects {}, by code.", "code"),
            ("all_rejects", "Rejects {}.", ""),
            ("words", "Words {}.", ""),
        )
    },
    "run_stage_seconds": ("Seconds by stage, all workers.", "stage"),
    "run_words_per_second": ("Words per second in finished shards.", ""),
    "run_planned_shards": ("Shards that this run has to process.", ""),
    "run_planned_bytes": ("Their size in bytes of text, as planned.", ""),
    "run_done_bytes": ("Bytes of text processed, unfinished shards included.", ""),
    "run_eta_seconds": ("Estimated seconds to the end of the run.", ""),
    "run_finish_timestamp_seconds": ("End time of the run.", ""),
    "run_exit_code": ("Exit code of the last run.", ""),
    "output_shards": ("Finished shards in the output.", ""),
}


class Metrics:
    """Writes and pushes the metrics from the call of `begin` until the block ends.

    A run that does not acquire its output, or loses it to another run, writes nothing, because the metrics belong to
    the other run.

    Args:
        path: a path or URL; None disables the file.
        output: output of the run, a label of every series, so that files of several jobs can be combined.
        counts: counters of the run.
        gateway: URL of a Pushgateway; None disables pushing.
        warn: receives the error of the first push that fails.

    Attributes:
        values: values of the report, once they are available.
        state: returns how far the run is, once that is known.

    Raises:
        PipelineError: `output.not_writable`, from `begin`, or at the end of the block if it raised no other error.
    """

    def __init__(
        self,
        path: str | None,
        output: str,
        counts: RunCounts,
        gateway: str | None = None,
        warn: Callable[[PipelineError], None] = lambda error: None,
    ) -> None:
        self.path = None if path is None else absolute(path)
        self.output, self.counts = output, counts
        self.values: dict[str, Any] | None = None
        self.state: Callable[[], RunState] | None = None
        self._gateway = None if gateway is None else Pushgateway(gateway, _escaped(output), warn)
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> "Metrics":
        return self

    def begin(self) -> None:
        """Write the metrics for the first time. Call this when the run holds the lock of its output."""
        if self.path is not None:
            self._write(None)
            self._threads.append(threading.Thread(target=self._keep_writing, name="metrics", daemon=True))
        if self._gateway is not None:
            self._threads.append(threading.Thread(target=self._keep_pushing, name="metrics-push", daemon=True))
        for thread in self._threads:
            thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        if isinstance(error, CodedError) and error.code in ("output.busy", "output.lock_lost"):
            return
        if self._gateway is not None:
            self._gateway.push(self._collected((error,)))
        if self.path is not None:
            with contextlib.suppress(PipelineError) if error is not None else contextlib.nullcontext():
                self._write((error,))

    def _keep_writing(self) -> None:
        while not self._over.wait(INTERVAL):
            # The store may recover before the last update, which reports errors.
            with contextlib.suppress(PipelineError):
                self._write(None)

    def _keep_pushing(self) -> None:
        """Push at once, in this thread, since a gateway that does not answer must not delay the run; then regularly."""
        assert self._gateway is not None
        self._gateway.push(self._collected(None))
        while not self._over.wait(PUSH_INTERVAL):
            self._gateway.push(self._collected(None))

    def _write(self, end: tuple[BaseException | None] | None) -> None:
        assert self.path is not None
        publish_bytes(self.path, generate_latest(self._collected(end)))

    def _collected(self, end: tuple[BaseException | None] | None) -> Collector:
        return collected(self.output, self.counts, self.values, end, self.state() if self.state else None)


def collected(
    output: str,
    counts: RunCounts,
    values: dict[str, Any] | None,
    end: tuple[BaseException | None] | None,
    state: RunState | None = None,
) -> Collector:
    """Return the metrics.

    Args:
        output: label of every series.
        counts: counters of the run.
        values: values of the report, if available.
        end: None while the run is active; then a tuple with the exception that ended it, or with None for success.
        state: how far the run is, if that is known.
    """
    error = end[0] if end else None
    metrics = _Gauges(output)
    metrics.add("run_start_timestamp_seconds", counts.started_at)
    metrics.add("run_success", end == (None,))
    failed = getattr(error, "count", 0)
    metrics.add("run_shards", {"run": counts.shards, "skipped": counts.skipped, "failed": failed})
    metrics.add("run_retries", counts.retries)
    metrics.add_rows("run", counts.counts, counts.reject_codes, counts.labels)
    metrics.add("run_stage_seconds", counts.stage_seconds)
    metrics.add("run_words_per_second", counts.words_per_second)
    if state is not None:
        metrics.add("run_planned_shards", state.planned_shards)
        metrics.add("run_planned_bytes", state.planned_bytes)
        metrics.add("run_done_bytes", state.done_bytes)
        if end is None and state.eta_s is not None:
            metrics.add("run_eta_seconds", state.eta_s)
    if end is not None:
        metrics.add("run_finish_timestamp_seconds", time.time())
        metrics.add("run_exit_code", exit_code(error))
    if values is not None:
        found = values["output"]
        metrics.add_rows("output", found["counts"], found["rejects"]["by_code"], found["entities_by_label"])
        metrics.add("output_shards", found["shards"])
    return metrics


class _Gauges(Collector):
    """Gauges in the order in which they were added, each labelled with the output."""

    def __init__(self, output: str) -> None:
        self._output, self._families = output, list[Metric]()

    def collect(self) -> list[Metric]:
        return self._families

    def add(self, name: str, values: float | Mapping[str, float]) -> None:
        """Add a gauge of one value, or of the values of its label."""
        meaning, label = GAUGES[name]
        family = GaugeMetricFamily(f"spanmarker_{name}", meaning, labels=["output", *([label] if label else [])])
        # Copy first: the run continues to count while this thread writes.
        for own, value in sorted(dict(values).items()) if isinstance(values, Mapping) else [("", values)]:
            texts = [self._output, own] if label else [self._output]
            family.add_metric([_escaped(text) for text in texts], value)
        self._families.append(family)

    def add_rows(
        self, scope: str, counts: Mapping[str, int], codes: Mapping[str, int], labels: Mapping[str, int]
    ) -> None:
        """Add the gauges that a run and its output have in common."""
        self.add(f"{scope}_documents", {status: counts.get(status, 0) for status in STATUSES})
        self.add(f"{scope}_entities", labels)
        self.add(f"{scope}_rejects", codes)
        self.add(f"{scope}_all_rejects", rejects_in(counts))
        self.add(f"{scope}_words", counts.get("words", 0))


def _escaped(text: str) -> str:
    """Return a text that UTF-8 can hold."""
    return text.encode("utf-8", "backslashreplace").decode()

"""The file of `--metrics` in the Prometheus text format, for node_exporter's textfile collector or another scraper.

It is written when a run acquires the lock of its output, every 15 seconds, and when the run ends in any way; the last
version has a finish time and an exit code. Metrics `spanmarker_run_*` describe the run. Metrics `spanmarker_output_*`
describe all rows of the output; they are available after a run that ends with a report.
"""

import contextlib
import threading
import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

from pipelines.errors import PipelineError, exit_code
from pipelines.output.overwrite import begins
from pipelines.report.run_counts import RunCounts, rejects_in
from pipelines.shards.stats import STATUSES
from pipelines.storage import absolute, publish_bytes
from spanmarker_core.errors import CodedError

#: Seconds between updates.
INTERVAL = 15.0

_Sample = tuple[dict[str, str], float | int]


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

    Raises:
        PipelineError: `output.not_writable`, from `begin`, or at the end of the block if it raised no other error.
    """

    def __init__(self, path: str | None, output: str, counts: RunCounts) -> None:
        self.path = None if path is None else absolute(path)
        self.output, self.counts = output, counts
        self.values: dict[str, Any] | None = None
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
        publish_bytes(self.path, exposition(self.output, self.counts, self.values, end))


def exposition(
    output: str, counts: RunCounts, values: dict[str, Any] | None, end: tuple[BaseException | None] | None
) -> bytes:
    """Return the contents of the file.

    Args:
        output: label of every series.
        counts: counters of the run.
        values: values of the report, if available.
        end: None while the run is active; then a tuple with the exception that ended it, or with None for success.
    """
    error = end[0] if end else None
    failed = getattr(error, "count", 0)
    shards: list[_Sample] = [
        ({"state": "run"}, counts.shards),
        ({"state": "skipped"}, counts.skipped),
        ({"state": "failed"}, failed),
    ]
    families: list[tuple[str, str, str, Iterable[_Sample]]] = [
        ("run_start_timestamp_seconds", "gauge", "When the run began.", _one(counts.started_at)),
        ("run_success", "gauge", "1 if the run ended well, 0 while it runs or if it did not.", _one(_well(end))),
        ("run_shards", "gauge", "Shards of this run: run, done before, failed.", shards),
        ("run_retries", "gauge", "Shards that were tried again.", _one(counts.retries)),
        *_rows("run", "finished in this run", counts.counts, counts.reject_codes, counts.labels),
        ("run_stage_seconds", "gauge", "Seconds by stage, all workers.", _labelled("stage", counts.stage_seconds)),
        ("run_words_per_second", "gauge", "Words of finished shards a second.", _one(counts.words_per_second)),
    ]
    if end is not None:
        families += [
            ("run_finish_timestamp_seconds", "gauge", "When the run ended.", _one(time.time())),
            ("run_exit_code", "gauge", "Exit code of the last run.", _one(exit_code(error))),
        ]
    if values is not None:
        found = values["output"]
        codes, labels = found["rejects"]["by_code"], found["entities_by_label"]
        families += _rows("output", "in the output", found["counts"], codes, labels)
        families.append(("output_shards", "gauge", "Finished shards in the output.", _one(found["shards"])))
    lines = []
    for name, kind, meaning, samples in families:
        lines += [f"# HELP spanmarker_{name} {meaning}", f"# TYPE spanmarker_{name} {kind}"]
        lines += [f"spanmarker_{name}{{{_labels({'output': output, **own})}}} {value}" for own, value in samples]
    return ("\n".join(lines) + "\n").encode()


def _rows(
    scope: str, where: str, counts: Mapping[str, int], codes: Mapping[str, int], labels: Mapping[str, int]
) -> list[tuple[str, str, str, Iterable[_Sample]]]:
    statuses = {status: counts.get(status, 0) for status in STATUSES}
    return [
        (f"{scope}_documents", "gauge", f"Documents {where}, by status.", _labelled("status", statuses)),
        (f"{scope}_entities", "gauge", f"Entities {where}, by label.", _labelled("label", labels)),
        (f"{scope}_rejects", "gauge", f"Rejects {where}, by code.", _labelled("code", codes)),
        (f"{scope}_all_rejects", "gauge", f"Rejects {where}.", _one(rejects_in(counts))),
        (f"{scope}_words", "gauge", f"Words {where}.", _one(counts.get("words", 0))),
    ]


def _one(value: float | int) -> list[_Sample]:
    return [({}, value)]


def _labelled(label: str, values: Mapping[str, float | int]) -> list[_Sample]:
    # Copy first: the run continues to count while this thread writes.
    return [({label: name}, value) for name, value in sorted(dict(values).items())]


def _well(end: tuple[BaseException | None] | None) -> int:
    return int(end is not None and end[0] is None)


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    """Return the value of a label, escaped for the format.

    >>> _escaped('a"b\\\\c')
    'a\\\\"b\\\\\\\\c'
    """
    text = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return text.encode("utf-8", "backslashreplace").decode()

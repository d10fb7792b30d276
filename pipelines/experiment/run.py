"""Driver of `spanmarker experiment`: data, runs, scores, results."""

import json
import platform
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from pipelines import CODE_VERSION
from pipelines.errors import PipelineError
from pipelines.experiment.cards import write_seeds
from pipelines.experiment.data import write_data
from pipelines.experiment.foreign import refuse_foreign
from pipelines.experiment.processes import Ended, run_all
from pipelines.experiment.results import write_results
from pipelines.experiment.runs import LOG, SCORES, Run, check_changes, plan_runs
from pipelines.experiment.scores import scores_of
from pipelines.jobs.experiment import ExperimentJob
from pipelines.processes.children import cores
from pipelines.report.printed import print_plain
from pipelines.storage import publish_bytes, sole_writer

_TAIL = 300  # characters from the end of a failed run's log in the error


def run_experiment(job: ExperimentJob, console: Console) -> None:
    """Execute the missing runs and update results.json and results.md after each.

    Args:
        job: the experiment.
        console: receives the output of the command.

    Raises:
        PipelineError: `experiment.encoder_missing`; `experiment.changed`; `experiment.no_such_run`;
            `experiment.runs_failed`, after all other runs are done; `output.busy`.
        CoreError: `data.*`; `bundle.*` if the card of a kept bundle cannot be written.
    """
    output = Path(job.output).absolute()
    refuse_foreign(job, output)
    output.mkdir(parents=True, exist_ok=True)
    with sole_writer(str(output), "spanmarker experiment"):
        data = {name: write_data(job, name, output / "data" / name) for name in job.datasets}
        runs = plan_runs(job, data)
        _check_encoders(runs)
        for prefix in [*job.only, *job.redo]:
            if not any(run.name.startswith(prefix) for run in runs):
                raise PipelineError("experiment.no_such_run", prefix=prefix, first=runs[0].name)
        for run in runs:
            if run.name.startswith(tuple(job.redo)):
                run.remove()
        check_changes(runs, job.output)
        chosen = [run for run in runs if not job.only or run.name.startswith(tuple(job.only))]
        missing = [run for run in chosen if not run.done]
        _Session(job, runs, len(missing), console).make(missing)


class _Session:
    """Handles the runs of one call as they end."""

    def __init__(self, job: ExperimentJob, runs: list[Run], missing: int, console: Console) -> None:
        self.job, self.runs, self.missing, self.console = job, runs, missing, console
        self.failed: dict[str, str] = {}
        self.ended = 0
        self.threads = job.threads or max(1, cores() // job.workers)

    def make(self, missing: list[Run]) -> None:
        done = sum(run.done for run in self.runs)
        self._say(
            f"{len(self.runs)} runs: {done} done before, {len(missing)} to do, {self.job.workers} at a time with "
            f"{self.threads} threads each"
        )
        if missing:
            run_all(missing, self.job.workers, self.threads, self._ended)
        page = write_results(self.job, self.runs)
        write_seeds(self.runs)
        self._say(f"Results: {page}")
        if self.failed:
            lines = "\n".join(f"  {name}: {reason}" for name, reason in list(self.failed.items())[:10])
            raise PipelineError("experiment.runs_failed", count=len(self.failed), total=len(missing), runs=lines)

    def _ended(self, run: Run, ended: Ended) -> None:
        self.ended += 1
        try:
            if ended.code:
                raise PipelineError("experiment.run_ended", status=ended.code, log=_tail(run.folder / LOG))
            scores = {
                "name": run.name,
                "dataset": run.dataset,
                "configuration": run.configuration,
                "size": run.size,
                "seed": run.seed,
                "sentences": run.files.sentences,
                **scores_of(run),
                "seconds": round(ended.seconds, 1),
                "cpu_seconds": round(ended.cpu_seconds, 1),
                "peak_bytes": ended.peak_bytes,
                "ended": datetime.now(UTC).isoformat(timespec="seconds"),
                "runs_at_once": self.job.workers,
                "threads": self.threads,
                "code": CODE_VERSION,
                "python": platform.python_version(),
                "machine": f"{platform.system()} {platform.machine()}, {cores()} cores",
            }
        except PipelineError as error:
            self.failed[run.name] = str(error)
            self._say(f"[{self.ended}/{self.missing}] {run.name}: failed, see {run.folder / LOG}: {error}")
            return
        if not self.job.keep_models:
            run.remove_weights()
        publish_bytes(str(run.folder / SCORES), json.dumps(scores, ensure_ascii=False, indent=2).encode() + b"\n")
        f1 = scores["test"]["micro"]["f1"]
        self._say(f"[{self.ended}/{self.missing}] {run.name}: test F1 {f1:.2%} in {ended.seconds:.0f} s")
        write_results(self.job, self.runs)

    def _say(self, line: str) -> None:
        print_plain(self.console, line)


def _check_encoders(runs: list[Run]) -> None:
    for run in runs:
        if not run.identity["encoder"]:
            raise PipelineError("experiment.encoder_missing", path=run.job["encoder"])


def _tail(path: Path) -> str:
    text = path.read_bytes().decode("utf-8", "replace").strip()
    return " ".join(text[-_TAIL:].split())

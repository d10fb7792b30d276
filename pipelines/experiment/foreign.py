"""Protection of files in the output folder of an experiment that the experiment did not write."""

from pathlib import Path

from pipelines.errors import PipelineError
from pipelines.experiment.runs import IDENTITY
from pipelines.jobs.experiment import ExperimentJob
from pipelines.output.overwrite import Ours, begins, never, refuse_overwrites

#: Lock file that `sole_writer` leaves in a folder.
_LOCK = ".lock"


def refuse_foreign(job: ExperimentJob, output: Path) -> None:
    """Reject an output folder in which the experiment would overwrite its data or files of another origin.

    Args:
        job: the experiment.
        output: its output folder, absolute; it may not exist yet.

    Raises:
        PipelineError: `output.is_input`, `output.would_replace`.
    """
    results: dict[str, Ours] = {
        "results.json": begins(b'{\n  "format_version": ', b'"runs_done"'),
        "results.md": begins(b"# Results\n"),
    }
    # The origin of data files cannot be recognised from their contents.
    data: Ours = (lambda file: True) if (output / _LOCK).exists() else never
    names = [
        f"data/{name}/{part}.jsonl"
        for name, each in job.datasets.items()
        for part in ("dev", "test", *(f"train-{size}" for size in each.sizes or job.sizes))
    ]
    inputs = [job.encoder, *(path for name in job.datasets for path in job.parts(name).values())]
    refuse_overwrites("--output", str(output), results | dict.fromkeys(names, data), inputs)
    for folder in _run_folders(job, output):
        begun = not folder.is_dir() or (folder / IDENTITY).exists()
        if not begun and (foreign := [each for each in folder.iterdir() if not each.name.startswith(".")]):
            raise PipelineError("output.would_replace", option="--output", path=foreign[0])


def _run_folders(job: ExperimentJob, output: Path) -> list[Path]:
    return [
        output / "runs" / dataset / configuration / str(size) / str(seed)
        for dataset, each in job.datasets.items()
        for configuration in job.configurations
        for size in each.sizes or job.sizes
        for seed in job.seeds
    ]

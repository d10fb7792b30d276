"""`spanmarker experiment`: runs data sets x configurations x sizes x seeds from one job file."""

import inspect
from typing import Annotated, Any

import typer

from pipelines.commands.options import options_of, with_options

_ONLY_IN_FILES = {"datasets", "configurations", "seeds", "sizes", "settings", "compare", "shuffle_seed", "resamples"}


def _options() -> list[inspect.Parameter]:
    from pipelines.jobs.experiment import ExperimentJob

    return options_of(ExperimentJob, without=_ONLY_IN_FILES, named={"keep_models": "--keep-models/--no-keep-models"})


@with_options(_options)
def experiment(
    job: Annotated[
        str,
        typer.Argument(metavar="FILE", help="TOML file with data sets, configurations, sizes, seeds and comparisons."),
    ],
    **options: Any,
) -> None:
    """Train and score all configurations on the same data with the same seeds, and test the differences.

    Running the same command again resumes the experiment.
    """
    from pipelines.jobs.experiment import ExperimentJob
    from pipelines.jobs.job_file import read_job

    checked = read_job(ExperimentJob, job, options)

    # Only now, since they take longer to import than the job to check.
    from rich.console import Console

    from pipelines.experiment.run import run_experiment

    run_experiment(checked, Console())

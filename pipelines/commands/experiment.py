"""`spanmarker experiment`: runs data sets x configurations x sizes x seeds from one job file."""

from typing import Annotated, Any

import typer


def experiment(
    job: Annotated[str, typer.Argument(help="TOML file with data sets, configurations, sizes, seeds and comparisons.")],
    data: Annotated[str | None, typer.Option(help="Folder with one subfolder per data set.")] = None,
    encoder: Annotated[str | None, typer.Option(help="Folder of a pretrained encoder.")] = None,
    output: Annotated[str | None, typer.Option(help="Folder for the runs and the results.")] = None,
    workers: Annotated[int | None, typer.Option(help="Number of concurrent runs.  [default: 1]")] = None,
    threads: Annotated[
        int | None, typer.Option(help="CPU threads per run.  [default: the cores divided by the workers]")
    ] = None,
    keep_models: Annotated[
        bool | None, typer.Option("--keep-models/--no-keep-models", help="Keep the model weights.  [default: no]")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Execute only runs whose DATASET/CONFIG/SIZE/SEED starts with this. Can be repeated."),
    ] = None,
    redo: Annotated[
        list[str] | None, typer.Option(help="Repeat runs whose name starts with this. Can be repeated.")
    ] = None,
) -> None:
    """Train and score all configurations on the same data with the same seeds, and test the differences.

    Running the same command again resumes the experiment.
    """
    options: dict[str, Any] = {name: value for name, value in locals().items() if name != "job"}

    from rich.console import Console

    from pipelines.experiment.run import run_experiment
    from pipelines.jobs.base import read_job
    from pipelines.jobs.experiment import ExperimentJob

    run_experiment(read_job(ExperimentJob, job, options), Console())

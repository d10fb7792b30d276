"""`spanmarker experiment`: data sets x configurations x sizes x seeds, from one job file."""

from typing import Annotated, Any

import typer


def experiment(
    job: Annotated[str, typer.Argument(help="TOML file: data sets, configurations, sizes, seeds, comparisons.")],
    data: Annotated[str | None, typer.Option(help="Folder that holds a folder of each data set.")] = None,
    encoder: Annotated[str | None, typer.Option(help="Folder of a pretrained encoder.")] = None,
    output: Annotated[str | None, typer.Option(help="Folder of the runs and the results.")] = None,
    workers: Annotated[int | None, typer.Option(help="Runs at once.  [default: 1]")] = None,
    threads: Annotated[int | None, typer.Option(help="CPU threads a run.  [default: the cores, shared]")] = None,
    keep_models: Annotated[
        bool | None, typer.Option("--keep-models/--no-keep-models", help="Keep the weights.  [default: no]")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Only runs whose DATASET/CONFIG/SIZE/SEED begins so. Repeat for more."),
    ] = None,
    redo: Annotated[list[str] | None, typer.Option(help="Make runs whose name begins so anew. Repeat it.")] = None,
) -> None:
    """Train and score all configurations on the same data with the same seeds, and say which differences are real.

    The same command goes on where the last one ended.
    """
    options: dict[str, Any] = {name: value for name, value in locals().items() if name != "job"}

    from rich.console import Console

    from pipelines.experiment.run import run_experiment
    from pipelines.jobs.base import read_job
    from pipelines.jobs.experiment import ExperimentJob

    run_experiment(read_job(ExperimentJob, job, options), Console())

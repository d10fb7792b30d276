"""`spanmarker train`: trains a model bundle from annotated sentences and an encoder."""

import inspect
from typing import Annotated, Any

from pipelines.commands.options import options_of, shown, with_options
from spanmarker_core.shown import Panel


def _options() -> list[inspect.Parameter]:
    from pipelines.jobs.shared import CardTexts
    from pipelines.jobs.train import TrainJob

    return options_of(
        TrainJob,
        without={*CardTexts.model_fields, "splitter", "warmup_share", "weight_decay"},
        named={"gate": "--gate/--no-gate", "gate_ends": "--gate-ends/--no-gate-ends"},
    )


@with_options(_options)
def train(
    job: Annotated[
        str | None, shown(Panel.FILES, "FILE", "TOML file with any of these options and the texts of the card.")
    ] = None,
    **options: Any,
) -> None:
    """Train a model and write it as a self-contained bundle.

    Under torchrun or accelerate launch, processes share each step. Running the same command again resumes an
    interrupted training.
    """
    from pipelines.jobs.job_file import read_job
    from pipelines.jobs.train import TrainJob

    checked = read_job(TrainJob, job, options)

    # Only now, since they bring torch and transformers, which take seconds to import.
    from rich.console import Console

    from pipelines.runs.train import run_training
    from spanmarker_core.training.distributed import leave

    try:
        run_training(checked, Console())
    finally:
        leave()

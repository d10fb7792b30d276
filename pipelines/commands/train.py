"""`spanmarker train`: trains a model bundle from annotated sentences and an encoder."""

import inspect
import os
from typing import Annotated, Any

from pipelines.commands.options import Quiet, options_of, shown, with_options
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
    quiet: Quiet = False,
    **options: Any,
) -> None:
    """Train a model and write it as a self-contained bundle.

    Under torchrun or accelerate launch, processes share each step. Running the same command again resumes an
    interrupted training.
    """
    from pipelines.jobs.job_file import read_job
    from pipelines.jobs.train import TrainJob

    checked = read_job(TrainJob, job, options)

    from rich.console import Console

    from pipelines.runs.progress import Display

    others = os.environ.get("RANK", "0") != "0"  # set by torchrun and accelerate launch: the first process reports
    with Display(Console(quiet=quiet or others)) as display:
        # Only now, since they bring torch and transformers, which take seconds to import.
        with display.phase("loading PyTorch"):
            from pipelines.runs.train import run_training
            from spanmarker_core.training.distributed import leave

        try:
            run_training(checked, display)
        finally:
            leave()

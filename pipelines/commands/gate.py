"""`spanmarker gate`: fits a gate to a trained model."""

import inspect
from typing import Any

import typer

from pipelines.commands.examples import examples
from pipelines.commands.group import show_help
from pipelines.commands.options import Job, JobCommand, options_of, with_options, with_words, words_after

gate = typer.Typer(
    help="Gates: filters that discard unlikely spans early and make tagging faster.",
    invoke_without_command=True,
    rich_markup_mode="rich",
)


@gate.callback()
def _group(context: typer.Context) -> None:
    """Print the help if no command follows; also, `fit` stays a subcommand although it is the only one."""
    show_help(context)


def _options() -> list[inspect.Parameter]:
    from pipelines.jobs.fit_gate import GateJob

    return options_of(GateJob)


@gate.command(
    cls=JobCommand,
    context_settings={"allow_extra_args": True},
    options_metavar="[OPTIONS] [PATH]...",
    epilog=examples("fit"),
)
@with_options(_options)
def fit(context: typer.Context, job: Job = None, **options: Any) -> None:
    """Fit a gate to a model, using the entities that the model finds in unlabelled text.

    The model itself does not change. Its results change only where the gate is switched on.
    """
    from pipelines.errors import PipelineError
    from pipelines.jobs.fit_gate import GateJob
    from pipelines.jobs.job_file import read_job

    if stray := words_after(context):
        raise PipelineError("job.stray_words", words=" ".join(stray), option="--corpus", suggestion="")
    options["corpus"] = with_words(context, options["corpus"], "--corpus")
    checked = read_job(GateJob, job, options)

    # Only now, since they take longer to import than the job to check.
    from rich.console import Console

    from pipelines.runs.fit_gate import run_gate_fit

    run_gate_fit(checked, Console())

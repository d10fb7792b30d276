"""`spanmarker prepare`: writes a corpus as samples, for `spanmarker tag --samples` or `spanmarker train`."""

import inspect
from typing import Annotated, Any

import typer

from pipelines.commands.options import (
    DryRun,
    Job,
    Quiet,
    Verbose,
    options_of,
    shown,
    with_options,
    with_words,
    words_after,
)
from spanmarker_core.shown import Panel


def _options() -> list[inspect.Parameter]:
    from pipelines.jobs.prepare import PrepareJob
    from pipelines.jobs.prepare_training import AnnotatedJob

    return options_of(
        PrepareJob,
        AnnotatedJob,
        first=("input", "output", "model"),
        without={"annotated", "beam_options"},
        helps={
            "output": "Folder for the samples, local or an fsspec URL.",
            "workers": "Worker processes.",
            "resources": "Dask: prepare only on workers with this resource, such as CPU=1.",
            "prune": "Remove samples of inputs that no longer exist.",
        },
        prefix="Annotated: ",
        required={"input": ""},
    )


@with_options(_options)
def prepare(
    extra: typer.Context,
    annotated: Annotated[
        bool | None, shown(Panel.FILES, None, "Prepare annotated data for training with --encoder.", "--annotated")
    ] = None,
    dry_run: DryRun = False,
    job: Job = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    **options: Any,
) -> None:
    """Read, split and pack documents, so that machines with a GPU only have to tag: spanmarker tag --samples OUTPUT.

    This needs the model's tokenizer but not torch. Tagging the samples writes the same rows as tagging the documents
    directly. Running the same command again processes only what is missing. Samples reflect the documents as they were
    read: if the inputs change, prepare and tag again. Arguments after -- are passed to Beam.

    With --annotated, the input is annotated sentences or documents, and the output is windows with their entities, for
    spanmarker train --train OUTPUT. Inputs are files in any format of docs/reference/formats.md, and folders saved by
    datasets. Annotations that cannot be learned are listed, with the reason, in gold_problems/ and summary.json.
    """
    from pipelines.jobs.base import ShardJob
    from pipelines.jobs.job_file import job_values, read_job
    from pipelines.jobs.prepare import PrepareJob
    from pipelines.jobs.prepare_training import AnnotatedJob

    kind: type[ShardJob] = AnnotatedJob if annotated or job_values(job).get("annotated") else PrepareJob
    options |= {"annotated": annotated, "input": with_words(extra, options["input"], "--input")}
    options["beam_options"] = words_after(extra)
    checked = read_job(kind, job, options)

    # Only now, since they take longer to import than the job to check.
    from rich.console import Console

    from pipelines.runs.run import run_job

    if dry_run:
        from pipelines.report.printed import wide_console
        from pipelines.runs.dry_run import dry_run as show

        show(checked, wide_console())
    else:
        run_job(checked, Console(quiet=quiet), verbose)

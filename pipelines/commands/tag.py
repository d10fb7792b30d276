"""`spanmarker tag`: tags a corpus and writes entity rows."""

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

#: The options that most users need, in the order of a document's way: reading, splitting, writing.
_FIRST = (
    *("input", "output", "model", "format", "id_column", "text_column", "language", "language_column"),
    *("sentence_breaks", "keep_columns", "keep_columns_in", "write_sentences", "commit", "samples"),
)


def _options() -> list[inspect.Parameter]:
    from pipelines.jobs.tag import TagJob

    required = {"input": ", unless --samples or --text is given"}
    switches = {"examples": "--examples/--no-examples"}
    return options_of(TagJob, first=_FIRST, without={"beam_options"}, named=switches, required=required)


@with_options(_options)
def tag(
    context: typer.Context,
    text: Annotated[
        list[str] | None,
        shown(Panel.FILES, "TEXT", "Tag this text and print its entities; nothing is written. Can be repeated."),
    ] = None,
    dry_run: DryRun = False,
    job: Job = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    **options: Any,
) -> None:
    """Tag documents with named entities and write them as Parquet.

    Running the same command again processes only what is missing: after a crash, or for new or changed files.
    Arguments after -- are passed to Beam, for example: spanmarker tag … --engine beam -- --runner=FlinkRunner
    """
    from pipelines.jobs.job_file import read_job
    from pipelines.jobs.tag import TagJob
    from pipelines.jobs.tag_text import TextJob, refuse_unused

    options |= {"input": with_words(context, options["input"], "--input"), "beam_options": words_after(context)}
    if text:
        given = [name for name, value in {**options, "dry_run": dry_run}.items() if value not in (None, [], False)]
        refuse_unused(given)
    checked = read_job(TextJob if text else TagJob, job, options)

    # Only now, since they take longer to import than the job to check.
    from rich.console import Console

    if isinstance(checked, TextJob):
        from pipelines.runs.tag_texts import tag_texts

        tag_texts(checked, text or [], Console())
    elif dry_run:
        from pipelines.report.printed import wide_console
        from pipelines.runs.dry_run import dry_run as show

        show(checked, wide_console())
    else:
        from pipelines.runs.run import run_job

        run_job(checked, Console(quiet=quiet), verbose)

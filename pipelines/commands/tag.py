"""`spanmarker tag`: tags a corpus and writes entity rows."""

import inspect
from typing import Any

import typer

from pipelines.commands.options import Job, options_of, with_options, with_words, words_after

#: The options that most users need, in the order of a document's way: reading, splitting, writing.
_FIRST = (
    *("input", "output", "model", "format", "id_column", "text_column", "language", "language_column"),
    *("sentence_breaks", "keep_columns", "keep_columns_in", "write_sentences", "commit", "samples"),
)


def _options() -> list[inspect.Parameter]:
    from pipelines.jobs.tag import TagJob

    switches = {"examples": "--examples/--no-examples"}
    return options_of(TagJob, first=_FIRST, without={"beam_options"}, named=switches)


@with_options(_options)
def tag(context: typer.Context, job: Job = None, **options: Any) -> None:
    """Tag documents with named entities and write them as Parquet.

    Running the same command again processes only what is missing: after a crash, or for new or changed files.
    Arguments after -- are passed to Beam, for example: spanmarker tag … --engine beam -- --runner=FlinkRunner
    """
    from pipelines.jobs.job_file import read_job
    from pipelines.jobs.tag import TagJob

    options |= {"input": with_words(context, options["input"], "--input"), "beam_options": words_after(context)}
    checked = read_job(TagJob, job, options)

    # Only now, since they take longer to import than the job to check.
    from rich.console import Console

    from pipelines.runs.run import run_job

    run_job(checked, Console())

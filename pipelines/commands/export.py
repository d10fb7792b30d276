"""`spanmarker export`: writes the entities of an output, with their texts, in the format of another tool."""

import inspect
from typing import Annotated, Any

import typer

from pipelines.commands.options import Quiet, options_of, with_options


def _options() -> list[inspect.Parameter]:
    from pipelines.jobs.base import ShardJob

    return options_of(ShardJob, without=ShardJob.model_fields.keys() - {"storage_option"})


@with_options(_options)
def export(
    output: Annotated[str, typer.Argument(help="Finished output folder of `spanmarker tag`.")],
    to: Annotated[str, typer.Option(help="Format to write: docs/export.md lists them.")],
    destination: Annotated[str, typer.Option(help="Folder to write, or with --one-file the file; a path or URL.")],
    one_file: Annotated[
        bool,
        typer.Option("--one-file", help="Write one file or, for brat and the like, one folder; not one per shard."),
    ] = False,
    label: Annotated[
        list[str] | None, typer.Option(help="Only entities with these labels, such as PER,ORG. Can be repeated.")
    ] = None,
    min_score: Annotated[float, typer.Option(min=0, max=1, help="Only entities with at least this score.")] = 0.0,
    document: Annotated[list[str] | None, typer.Option(help="Only the document with this id. Can be repeated.")] = None,
    document_file: Annotated[
        str | None, typer.Option(help="Only the documents whose ids this file lists, one per line.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most this number of documents.")] = None,
    scheme: Annotated[str, typer.Option(help="Label scheme of conll, conllu and datasets, such as BIOES.")] = "IOB2",
    flatten: Annotated[
        str,
        typer.Option(help="Overlapping entities, if the format is flat: refuse, or keep the longest or the first."),
    ] = "refuse",
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Leave out documents whose source no longer exists or has changed.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a previous export at the destination.")] = False,
    model: Annotated[
        str | None, typer.Option(help="Model bundle of the run, if its words are those of its tokenizer.")
    ] = None,
    quiet: Quiet = False,
    **options: Any,
) -> None:
    """Export the documents and entities of an output to the format of another tool.

    The texts are read from the inputs again, which must be where they were and unchanged.
    """
    from rich.console import Console

    from pipelines.export.export import Selection
    from pipelines.export.export import export as run
    from pipelines.runs.progress import Display
    from pipelines.storage import use_options
    from spanmarker_core.errors import CoreError
    from spanmarker_core.formats.options import FLATTEN, WriteOptions
    from spanmarker_core.text.counted import counted
    from spanmarker_core.text.tag_schemes import check_tag_scheme

    use_options(options["storage_option"] or [])
    how = next((known for known in FLATTEN if known == flatten), None)
    if how is None:
        raise CoreError("call.unknown_option", option="--flatten", value=flatten, choices=", ".join(FLATTEN))
    ids = None if document is None and document_file is None else frozenset([*(document or []), *_ids(document_file)])
    with Display(Console(quiet=quiet)) as display:
        done = run(
            output,
            to,
            destination,
            Selection(tuple(label or ()), min_score, ids, limit),
            WriteOptions(check_tag_scheme(scheme), how),
            one_file=one_file,
            skip_missing=skip_missing,
            force=force,
            model=model,
            progress=display,
        )
    kept, say = done.kept, display.say
    found = counted(kept.entities, "entity", "entities")
    say(f"{destination}: {counted(kept.documents, 'document')} with {found}")
    if kept.labels:
        say("By label: " + ", ".join(f"{name} {count:,}" for name, count in kept.labels.most_common()))
    for line in kept.losses():
        say(line)
    if done.rejected:
        say(f"Left out: {counted(done.rejected, 'rejected document')}")
    for reason, count in done.missing.items():
        say(f"Left out: {counted(count, 'document')} ({_MISSING[reason]})")


_MISSING = {
    "gone": "their source no longer exists",
    "changed": "their source has changed",
    "unplanned": "the last run did not name their source",
}


def _ids(path: str | None) -> list[str]:
    """Return the ids in a file, one per line."""
    from pipelines.errors import PipelineError
    from pipelines.storage import open_input

    if path is None:
        return []
    try:
        with open_input(path) as file:
            lines = file.read().decode("utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError("output.not_readable", path=path, reason=error) from error
    return [line for line in (each.removesuffix("\r") for each in lines) if line]

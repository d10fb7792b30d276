"""`spanmarker export`: writes the entities of an output, with their texts, in the format of another tool."""

import inspect
from typing import Annotated, Any

import typer

from pipelines.commands.options import Flatten, Quiet, options_of, shown, with_options
from spanmarker_core.shown import Panel


def _options() -> list[inspect.Parameter]:
    from pipelines.jobs.base import ShardJob

    return options_of(ShardJob, without=ShardJob.model_fields.keys() - {"storage_option"})


@with_options(_options)
def export(
    output: Annotated[str, typer.Argument(metavar="OUTPUT", help="Finished output folder of `spanmarker tag`.")],
    to: Annotated[
        str,
        shown(
            Panel.FILES,
            "FORMAT",
            "Format to write, such as jsonl, conll, spacy, brat or label-studio; docs/how-to/export.md lists all.",
        ),
    ],
    destination: Annotated[
        str, shown(Panel.FILES, "PATH", "Folder to write, or with --one-file the file; a path or URL.")
    ],
    one_file: Annotated[
        bool,
        shown(
            Panel.FILES,
            None,
            "Write one part, not one per shard: a file or, for brat and the like, a folder.",
            "--one-file",
        ),
    ] = False,
    label: Annotated[
        list[str] | None,
        shown(Panel.FILES, "LABELS", "Only entities with these labels, such as PER,ORG. Can be repeated."),
    ] = None,
    min_score: Annotated[
        float, shown(Panel.FILES, "SCORE", "Only entities with at least this score.", min=0, max=1)
    ] = 0.0,
    document: Annotated[
        list[str] | None, shown(Panel.FILES, "ID", "Only the document with this id. Can be repeated.")
    ] = None,
    document_file: Annotated[
        str | None, shown(Panel.FILES, "FILE", "Only the documents whose ids this file lists, one per line.")
    ] = None,
    limit: Annotated[int | None, shown(Panel.FILES, "N", "At most this number of documents.", min=1)] = None,
    scheme: Annotated[
        str, shown(Panel.FILES, "SCHEME", "Label scheme of conll, conllu and datasets, such as BIOES.")
    ] = "IOB2",
    flatten: Flatten = "refuse",
    skip_missing: Annotated[
        bool,
        shown(Panel.FILES, None, "Leave out documents whose source no longer exists or has changed.", "--skip-missing"),
    ] = False,
    force: Annotated[
        bool, shown(Panel.FILES, None, "Replace a previous export at the destination.", "--force")
    ] = False,
    model: Annotated[
        str | None,
        shown(Panel.MODEL, "MODEL", "Model bundle of the run; needed for words if they are those of its tokenizer."),
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
    from spanmarker_core.formats.options import WriteOptions, check_flatten
    from spanmarker_core.text.counted import counted
    from spanmarker_core.text.tag_schemes import check_tag_scheme

    use_options(options["storage_option"] or [])
    ids = None if document is None and document_file is None else frozenset([*(document or []), *_ids(document_file)])
    with Display(Console(quiet=quiet)) as display:
        done = run(
            output,
            to,
            destination,
            Selection(tuple(label or ()), min_score, ids, limit),
            WriteOptions(check_tag_scheme(scheme), check_flatten(flatten), predicted=True),
            one_file=one_file,
            skip_missing=skip_missing,
            force=force,
            model=model,
            progress=display,
        )
    kept = done.kept
    found = counted(kept.entities, "entity", "entities")
    lines = [f"{destination}: {counted(kept.documents, 'document')} with {found}"]
    if kept.labels:
        lines.append("By label: " + ", ".join(f"{name} {count:,}" for name, count in kept.labels.most_common()))
    lines += kept.losses()
    if done.rejected:
        lines.append(f"Left out: {counted(done.rejected, 'rejected document')}")
    for reason, count in done.missing.items():
        lines.append(f"Left out: {counted(count, 'document')} ({_MISSING[reason]})")
    display.say("\n".join(lines))


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

"""`spanmarker convert`: converts annotated data from one format to another."""

import inspect
from typing import Annotated, Any

import typer

from pipelines.commands.options import Flatten, Quiet, options_of, shown, with_options
from spanmarker_core.shown import Panel


def _options() -> list[inspect.Parameter]:
    from pipelines.jobs.base import ShardJob
    from pipelines.jobs.shared import AnnotatedColumns, DocumentColumns

    return options_of(
        AnnotatedColumns,
        ShardJob,
        without=ShardJob.model_fields.keys() - DocumentColumns.model_fields.keys() - {"storage_option"},
        helps={
            "scheme": "Label scheme of tagged input, such as IOB2.",
            "language": "Language of texts that are split into sentences.",
        },
    )


@with_options(_options)
def convert(
    inputs: Annotated[
        list[str],
        typer.Argument(metavar="PATH", help="Files, folders or patterns such as 'data/*.ann', local or fsspec URLs."),
    ],
    to: Annotated[
        str,
        shown(
            Panel.FILES,
            "FORMAT",
            "Format to write, such as jsonl, conll, spacy or brat; docs/reference/formats.md lists all.",
        ),
    ],
    output: Annotated[str, shown(Panel.FILES, "PATH", "New file to write, or folder for formats of several files.")],
    from_: Annotated[
        str | None, shown(Panel.FILES, "FORMAT", "Format to read.  [default: by name and content]", "--from")
    ] = None,
    to_scheme: Annotated[str, shown(Panel.FILES, "SCHEME", "Label scheme of tagged output.")] = "IOB2",
    flatten: Flatten = "refuse",
    quiet: Quiet = False,
    **options: Any,
) -> None:
    """Convert annotated data between formats, such as brat to JSON lines for spanmarker train.

    For formats that hold words, the project's splitters split the texts. Entities that do not begin and end with words
    are counted and left out.
    """
    from rich.console import Console

    from pipelines.runs.convert import convert as run
    from pipelines.runs.progress import Display
    from pipelines.storage import use_options
    from spanmarker_core.formats.options import ReadOptions, WriteOptions, check_flatten
    from spanmarker_core.text.counted import counted
    from spanmarker_core.text.tag_schemes import check_tag_scheme

    given = {name: value for name, value in options.items() if value is not None}
    use_options(given.pop("storage_option", []))
    how = check_flatten(flatten)
    write = WriteOptions(check_tag_scheme(to_scheme, "--to-scheme"), how, given.pop("language", "en"))
    with Display(Console(quiet=quiet)) as display:
        kept = run(inputs, output, to, ReadOptions(**given, flatten=how), write, from_, display)
    found = counted(kept.entities, "entity", "entities")
    display.say("\n".join([f"{output}: {counted(kept.documents, 'document')} with {found}", *kept.losses()]))

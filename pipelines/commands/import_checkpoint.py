"""`spanmarker import-checkpoint`: converts a checkpoint of the span_marker library to a bundle."""

from typing import Annotated

import typer


def import_checkpoint(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="Folder saved by the span_marker library, or a repository on the Hub, owner/name or "
            "owner/name@revision.",
        ),
    ],
    output: Annotated[str, typer.Argument(metavar="OUTPUT", help="Folder for the bundle; must be empty or not exist.")],
) -> None:
    """Convert a span_marker checkpoint to a bundle. Runs no code from it."""
    from rich.console import Console

    from pipelines.output.overwrite import refuse_bundle
    from spanmarker_core.integrations.span_marker import import_span_marker

    refuse_bundle("OUTPUT", output, [source])
    digest = import_span_marker(source, output)
    Console().print(f"{output}: model {digest[:12]}", markup=False, highlight=False)

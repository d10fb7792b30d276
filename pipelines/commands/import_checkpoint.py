"""`spanmarker import-checkpoint`: a checkpoint of the span_marker library as a bundle."""

from typing import Annotated

import typer


def import_checkpoint(
    source: Annotated[str, typer.Argument(help="Folder saved by the span_marker library.")],
    output: Annotated[str, typer.Argument(help="Folder for the bundle; must not exist or be empty.")],
) -> None:
    """Turn a span_marker checkpoint into a bundle that loads with the network off. Reads weights only."""
    from rich.console import Console

    from pipelines.output.overwrite import refuse_bundle
    from spanmarker_core.integrations.span_marker import import_span_marker

    refuse_bundle("OUTPUT", output, [source])
    digest = import_span_marker(source, output)
    Console().print(f"{output}: model {digest[:12]}", markup=False, highlight=False)

"""The `spanmarker` command. See `errors` for its exit codes."""

import sys

import typer

from pipelines.commands.evaluate import evaluate
from pipelines.commands.gate import gate
from pipelines.commands.import_checkpoint import import_checkpoint
from pipelines.commands.status import status
from pipelines.commands.tag import tag
from pipelines.commands.train import train
from pipelines.errors import EXIT_FAULT
from spanmarker_core.errors import CodedError

app = typer.Typer(
    help="Named entities of large corpora, as rows of Parquet.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # Else "[default: …]" in a help text is taken for markup and vanishes.
    pretty_exceptions_enable=False,
)
app.command()(tag)
app.command()(status)
app.command()(train)
app.command()(evaluate)
app.command()(import_checkpoint)
app.add_typer(gate, name="gate")


def main() -> None:
    """Run the command line. A coded error is printed as one message, without a traceback."""
    try:
        app()
    except CodedError as error:
        print(f"spanmarker: {error}", file=sys.stderr)
        sys.exit(EXIT_FAULT)


if __name__ == "__main__":
    main()

"""The `spanmarker` command. `pipelines.errors` lists its exit codes."""

import io
import sys
import warnings
from typing import Annotated

import typer

from pipelines import __version__
from pipelines.commands.browse import browse
from pipelines.commands.card import card
from pipelines.commands.compare import compare
from pipelines.commands.convert import convert
from pipelines.commands.evaluate import evaluate
from pipelines.commands.examples import examples
from pipelines.commands.experiment import experiment
from pipelines.commands.export import export
from pipelines.commands.gate import gate
from pipelines.commands.group import CommandGroup, in_options, print_error, show_help
from pipelines.commands.import_checkpoint import import_checkpoint
from pipelines.commands.interruption import interruptible, interruption
from pipelines.commands.options import JobCommand
from pipelines.commands.prepare import prepare
from pipelines.commands.push import push
from pipelines.commands.representations import representations
from pipelines.commands.status import status
from pipelines.commands.tag import tag
from pipelines.commands.train import train
from pipelines.errors import EXIT_TERMINATED, PipelineError, Terminated, exit_code
from pipelines.processes.thread_limits import prepare_process
from spanmarker_core.errors import CodedError, CoreWarning

_EXIT_CODES = (
    "Exit codes: 0 success; 1 error in the job; 2 invalid command line; 3 incomplete, run it again; 4 more rejects "
    "than --max-rejects; 5 output in use by another run; 130 Ctrl-C; 143 SIGTERM."
)

app = typer.Typer(
    cls=CommandGroup,
    help="Find named entities in large corpora and write them as rows of Parquet; train the models that do it.",
    invoke_without_command=True,
    epilog=f'Try: spanmarker tag --text "Ada Lovelace lived in London."\n\n{_EXIT_CODES}',
    context_settings={"help_option_names": ["-h", "--help"]},  # of the subcommands too
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
_COMMANDS = {
    "Tag": (tag, status, browse, prepare, export),
    "Model": (train, evaluate, compare, representations, experiment, convert),
    "Share": (card, import_checkpoint, push),
}
for panel, commands in _COMMANDS.items():
    for command in commands:
        over_shards = command in (tag, prepare)
        name = command.__name__.replace("_", "-")
        app.command(
            name,
            cls=JobCommand,
            rich_help_panel=panel,
            context_settings={"allow_extra_args": over_shards},
            options_metavar="[OPTIONS] [PATH]... [-- BEAM_OPTIONS]" if over_shards else "[OPTIONS]",
            epilog="\n\n".join([examples(name), *([_EXIT_CODES] if over_shards else [])]),
        )(command)
app.add_typer(gate, name="gate", rich_help_panel="Gate")


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"spanmarker {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Take the options that stand before a command, and print the help if there is none."""
    show_help(context)


def main() -> None:
    """Run the command line.

    Errors other than bugs are printed as one coded message, without a traceback.
    """
    prepare_process(0)
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # File names need not be valid UTF-8.
    format_before = warnings.formatwarning
    warnings.formatwarning = _format_warning
    try:
        with interruptible():
            app(prog_name="spanmarker")
    except SystemExit as end:  # typer turns every KeyboardInterrupt into this
        cause = end.__context__.__cause__ if isinstance(end.__context__, BaseException) else None
        if isinstance(cause, KeyboardInterrupt):
            if sys.stderr.isatty() and not isinstance(cause, Terminated):
                print(file=sys.stderr)  # The terminal has shown ^C.
            print_error(interruption(cause, sys.argv[1:]))
        if isinstance(cause, Terminated):
            sys.exit(EXIT_TERMINATED)
        raise
    except CodedError as error:
        _fail(error)
    except OSError as error:
        from pipelines.storage import StorageError, is_storage_error

        of_storage = isinstance(error, StorageError | PermissionError | TimeoutError | ConnectionError)
        if not of_storage and not (type(error) is OSError and is_storage_error(error)):
            raise  # A bug: keep the traceback.
        _fail(PipelineError("storage.failed", reason=error))
    finally:
        warnings.formatwarning = format_before


def _format_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Format a warning for users without the line of code that caused it."""
    if issubclass(category, CoreWarning):
        return f"spanmarker: {message}\n"
    return f"{filename}:{lineno}: {category.__name__}: {message}\n"


def _fail(error: CodedError) -> None:
    print_error(str(in_options(error)))
    sys.exit(exit_code(error))


if __name__ == "__main__":
    main()

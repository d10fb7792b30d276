"""`spanmarker status`: shows finished, pending and rejected work, and the run that is writing."""

from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.commands.options import shown
from spanmarker_core.shown import Panel

if TYPE_CHECKING:
    from pipelines.report.status import Status


#: Counts that are not shown if they are 0.
_SELDOM = ("empty", "rejected", "unreadable")
#: Seconds between two looks at a run, and between two lines where the output is not a terminal.
_WATCH_SECONDS, _LINE_SECONDS = 2.0, 30.0


def status(
    output: Annotated[
        str, typer.Argument(metavar="OUTPUT", help="Output folder of `spanmarker tag` or `spanmarker prepare`.")
    ],
    as_json: Annotated[bool, shown(Panel.OBSERVABILITY, None, "Print one JSON object.", "--json")] = False,
    watch: Annotated[
        bool, shown(Panel.OBSERVABILITY, None, "While a run is writing, show its progress until it ends.", "--watch")
    ] = False,
) -> None:
    """Show finished, pending and rejected work, and the progress of the run that is writing. Changes nothing.

    Exit codes: 0 all shards are done; 3 some are left and no run is writing; 5 a run is writing.
    """
    import json

    from pipelines.report.status import read_status

    found = _watched(output) if watch else read_status(output)
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=1))
    else:
        _print(found)
    raise typer.Exit(found.exit_code)


def _watched(output: str) -> "Status":
    """Show the run that is writing until it ends, and return the status at its end."""
    import time

    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from pipelines.report.printed import print_plain
    from pipelines.report.status import read_status

    console, printed = Console(stderr=True), 0.0
    try:
        with Live(console=console, auto_refresh=False, transient=True) as live:
            while True:
                began = time.monotonic()
                found = read_status(output)
                if found.writer is None:
                    return found
                lines = "\n".join(found.run_lines())
                if console.is_terminal:
                    live.update(Text(lines), refresh=True)
                elif not printed or began - printed > _LINE_SECONDS:
                    print_plain(console, lines)
                    printed = began
                # A large output takes a while to read, which is not to be all that this machine does.
                time.sleep(max(_WATCH_SECONDS, 5 * (time.monotonic() - began)))
    except KeyboardInterrupt as error:
        error.add_note("The run goes on.")
        raise


def _print(found: "Status") -> None:
    from rich.table import Column, Table

    from pipelines.report.printed import print_plain, wide_console
    from spanmarker_core.text.counted import counted

    console = wide_console()
    # So that the names of shards fit in 80 columns.
    names = [name for name in found.names if found.totals.counts[name] or name not in _SELDOM]
    columns = [Column(name, justify="right") for name in names]
    table = Table(Column("shard", overflow="fold"), "state", *columns, box=None, pad_edge=False)
    for name, entry in found.first:
        numbers = [f"{entry.counts[column]:,}" for column in names] if entry is not None else []
        table.add_row(name, "done" if entry is not None else "left", *numbers)
    if found.shards > len(found.first):
        table.add_row(f"and {found.shards - len(found.first):,} more")
    totals = (f"{found.totals.counts[name]:,}" for name in names)
    table.add_row(counted(found.shards, "shard"), "", *totals)
    console.print(table)
    lines = [f"rejected, {code}: {number:,}" for code, number in found.totals.reject_codes.most_common()]
    kept = f", and {counted(found.orphaned, 'finished shard')} whose inputs the job no longer includes"
    lines.append(f"{found.totals.shards:,} done, {found.left:,} left{kept if found.orphaned else ''}")
    print_plain(console, "\n".join([*lines, *found.run_lines()]))

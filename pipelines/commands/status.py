"""`spanmarker status`: shows finished, pending and rejected work, and the run that is writing."""

from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.commands.options import shown
from spanmarker_core.shown import Panel

if TYPE_CHECKING:
    from pipelines.report.status import Status


def status(
    output: Annotated[
        str, typer.Argument(metavar="OUTPUT", help="Output folder of `spanmarker tag` or `spanmarker prepare`.")
    ],
    as_json: Annotated[bool, shown(Panel.OBSERVABILITY, None, "Print one JSON object.", "--json")] = False,
) -> None:
    """Show finished, pending and rejected work, and the progress of the run that is writing. Changes nothing.

    Exit codes: 0 all shards are done; 3 some are left and no run is writing; 5 a run is writing.
    """
    import json

    from pipelines.report.status import read_status

    found = read_status(output)
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=1))
    else:
        _print(found)
    raise typer.Exit(found.exit_code)


def _print(found: "Status") -> None:
    from rich.table import Column, Table

    from pipelines.report.printed import print_plain, wide_console
    from spanmarker_core.text.counted import counted

    console = wide_console()
    table = Table(Column("shard", overflow="fold"), "state", *found.names, box=None)
    for name, entry in found.first:
        numbers = [f"{entry.counts[column]:,}" for column in found.names] if entry is not None else []
        table.add_row(name, "done" if entry is not None else "left", *numbers)
    if found.shards > len(found.first):
        table.add_row(f"and {found.shards - len(found.first):,} more")
    totals = (f"{found.totals.counts[name]:,}" for name in found.names)
    table.add_row(counted(found.shards, "shard"), "", *totals)
    console.print(table)
    lines = [f"rejected, {code}: {number:,}" for code, number in found.totals.reject_codes.most_common()]
    kept = f", and {counted(found.orphaned, 'finished shard')} whose inputs the job no longer includes"
    lines.append(f"{found.totals.shards:,} done, {found.left:,} left{kept if found.orphaned else ''}")
    print_plain(console, "\n".join([*lines, *found.run_lines()]))

"""`spanmarker status`: what is done, left and rejected."""

from typing import Annotated

import typer

_MAX_ROWS = 30


def status(
    output: Annotated[str, typer.Argument(help="The --output of a `spanmarker tag`.")],
) -> None:
    """Show what is done, left and rejected, per shard and in all. Changes nothing."""
    from rich.console import Console
    from rich.table import Column, Table

    from pipelines.errors import PipelineError
    from pipelines.manifest import done_shards, entries_of, plan_path, planned
    from pipelines.report.totals import Totals
    from pipelines.storage import absolute, exists

    folder = absolute(output)
    if not exists(plan_path(folder)):
        raise PipelineError("output.not_a_job", path=folder, file="plan.jsonl")
    done = done_shards(folder)
    names = ("documents", "tagged", "empty", "rejected", "unreadable", "entities")
    table = Table(Column("shard", overflow="fold"), "state", *names, box=None)
    totals, count = Totals(), 0
    for shard, entry in entries_of(folder, planned(folder), done):
        count += 1
        if entry is not None:
            totals.add(entry)
        if count <= _MAX_ROWS:
            numbers = [f"{entry.counts[name]:,}" for name in names] if entry is not None else []
            table.add_row(shard.name, "done" if entry is not None else "left", *numbers)
    if count > _MAX_ROWS:
        table.add_row(f"and {count - _MAX_ROWS:,} more")
    table.add_row(f"{count:,} shards", "", *(f"{totals.counts[name]:,}" for name in names))
    console = Console()
    if not console.is_terminal:
        console.width = 200  # A pipe or a file has no width to keep to.
    console.print(table)
    for code, number in totals.reject_codes.most_common():
        console.print(f"rejected, {code}: {number:,}", markup=False, highlight=False)
    orphaned = len(done) - totals.shards
    kept = f", and {orphaned:,} done shards of inputs that the last run no longer named" if orphaned else ""
    console.print(f"{totals.shards:,} done, {count - totals.shards:,} left{kept}", markup=False, highlight=False)

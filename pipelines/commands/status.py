"""`spanmarker status`: what is done, left and rejected."""

from typing import Annotated

import typer

_MAX_ROWS = 30


def status(
    output: Annotated[str, typer.Argument(help="The --output of a `spanmarker tag`.")],
) -> None:
    """Show what is done, left and rejected, per shard and in all. Changes nothing."""
    from rich.console import Console
    from rich.table import Table

    from pipelines.errors import PipelineError
    from pipelines.manifest import done_shards, plan_path, read_entries
    from pipelines.plan import read_plan
    from pipelines.report.totals import Totals
    from pipelines.storage import absolute, exists

    folder = absolute(output)
    if not exists(plan_path(folder)):
        raise PipelineError("output.not_a_job", path=folder, file="plan.jsonl")
    done = done_shards(folder)
    table = Table("shard", "state", "documents", "tagged", "empty", "rejected", "unreadable", "entities")
    names = ("documents", "tagged", "empty", "rejected", "unreadable", "entities")
    totals, planned = Totals(), 0
    for shard in read_plan(plan_path(folder)):
        planned += 1
        counts: dict[str, int] = {}
        if shard.name in done:
            entry = next(read_entries(folder, [shard.name]))
            totals.add(entry)
            counts = entry.counts
        if planned <= _MAX_ROWS:
            state = "done" if counts else "left"
            table.add_row(shard.name, state, *(f"{counts[name]:,}" if counts else "" for name in names))
    if planned > _MAX_ROWS:
        table.add_row(f"… {planned - _MAX_ROWS:,} more", *[""] * 7)
    table.add_section()
    table.add_row(f"{planned:,} shards", f"{totals.shards:,} done", *(f"{totals.counts[name]:,}" for name in names))
    console = Console()
    console.print(table)
    for code, count in totals.reject_codes.most_common():
        console.print(f"rejected, {code}: {count:,}", markup=False, highlight=False)
    orphaned = len(done) - totals.shards
    kept = f", and {orphaned:,} done shards of inputs that the last run no longer named" if orphaned else ""
    console.print(f"{totals.shards:,} done, {planned - totals.shards:,} left{kept}", markup=False, highlight=False)

"""`spanmarker status`: shows finished, pending and rejected work."""

import itertools
from typing import Annotated

import typer

_MAX_ROWS = 30


def status(
    output: Annotated[
        str, typer.Argument(metavar="OUTPUT", help="Output folder of `spanmarker tag` or `spanmarker prepare`.")
    ],
) -> None:
    """Show finished, pending and rejected work, per shard and in total. Changes nothing."""
    from rich.table import Column, Table

    from pipelines.errors import PipelineError
    from pipelines.output.digest_set import DigestSet
    from pipelines.output.layout import SAMPLE_TABLES, TRAINING_TABLES, tables_of
    from pipelines.output.manifest import committed_entry, find_done, plan_path, planned, read_entries
    from pipelines.output.plan_file import plan_identity
    from pipelines.report.printed import wide_console
    from pipelines.report.totals import Totals
    from pipelines.storage import absolute, exists

    folder = absolute(output)
    if not exists(plan_path(folder)):
        raise PipelineError("output.not_a_job", path=folder, file="plan.jsonl")
    done = find_done(folder).done
    names = ["documents", "tagged", "empty", "rejected", "unreadable", "entities"]
    if tables_of(plan_identity(plan_path(folder))) in (SAMPLE_TABLES, TRAINING_TABLES):
        names = ["documents", "prepared", "empty", "rejected", "unreadable", "windows"]
    table = Table(Column("shard", overflow="fold"), "state", *names, box=None)
    for shard in itertools.islice(planned(folder), _MAX_ROWS):
        entry = committed_entry(folder, shard.name) if shard.name in done else None
        numbers = [f"{entry.counts[name]:,}" for name in names] if entry is not None else []
        table.add_row(shard.name, "done" if entry is not None else "left", *numbers)
    plan = DigestSet.of(shard.name for shard in planned(folder))
    count, totals = len(plan), Totals.over(read_entries(folder, plan & done))
    if count > _MAX_ROWS:
        table.add_row(f"and {count - _MAX_ROWS:,} more")
    table.add_row(f"{count:,} shards", "", *(f"{totals.counts[name]:,}" for name in names))
    console = wide_console()
    console.print(table)
    for code, number in totals.reject_codes.most_common():
        console.print(f"rejected, {code}: {number:,}", markup=False, highlight=False)
    orphaned = len(done - plan)
    kept = f", and {orphaned:,} finished shards whose inputs the job no longer includes" if orphaned else ""
    console.print(f"{totals.shards:,} done, {count - totals.shards:,} left{kept}", markup=False, highlight=False)

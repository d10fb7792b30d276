"""`spanmarker compare`: compares two evaluation reports."""

from typing import Annotated

import typer

from pipelines.commands.options import shown
from spanmarker_core.shown import Panel


def compare(
    first: Annotated[str, typer.Argument(metavar="FIRST", help="Report folder of `spanmarker evaluate --report`.")],
    second: Annotated[
        str, typer.Argument(metavar="SECOND", help="Report folder of the second model, on the same data.")
    ],
    report: Annotated[
        str | None, shown(Panel.FILES, "FOLDER", "Folder for comparison.html, comparison.md and comparison.json.")
    ] = None,
) -> None:
    """Compare two models: difference of scores, its statistical significance, and the entities fixed and regressed."""
    from contextlib import nullcontext

    from pipelines.report.comparison import compare_reports, comparison_markdown, publish_comparison
    from pipelines.report.folder import refuse_foreign, report_folder
    from pipelines.report.printed import print_markdown, print_plain, wide_console
    from pipelines.storage import absolute

    folder = absolute(report) if report else None
    if folder:
        refuse_foreign(folder, "comparison", [first, second])
    with report_folder(folder) if folder else nullcontext():
        values = compare_reports(absolute(first), absolute(second))
    console = wide_console()
    print_markdown(console, comparison_markdown(values))
    if folder:
        page = publish_comparison(folder, values)
        print_plain(console, f"Report: {page}")

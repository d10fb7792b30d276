"""`spanmarker compare`: two evaluation reports side by side."""

from typing import Annotated

import typer


def compare(
    first: Annotated[str, typer.Argument(help="Folder of a report that `spanmarker evaluate --report` wrote.")],
    second: Annotated[str, typer.Argument(help="Folder of another one, on the same data.")],
    report: Annotated[
        str | None, typer.Option(help="Folder for comparison.html, comparison.md and comparison.json.")
    ] = None,
) -> None:
    """Say how much the second model differs from the first, how sure that is, and which entities were won and lost."""
    from contextlib import nullcontext

    from rich.console import Console
    from rich.markdown import Markdown

    from pipelines.report.comparison import compare_reports, comparison_markdown, publish_comparison
    from pipelines.report.folder import refuse_foreign, report_folder
    from pipelines.storage import absolute

    folder = absolute(report) if report else None
    if folder:
        refuse_foreign(folder, "comparison", [first, second])
    with report_folder(folder) if folder else nullcontext():
        values = compare_reports(absolute(first), absolute(second))
    console = Console()
    console.print(Markdown(comparison_markdown(values)))
    if folder:
        page = publish_comparison(folder, values)
        console.print(f"Report: {page}", markup=False, highlight=False, soft_wrap=True)

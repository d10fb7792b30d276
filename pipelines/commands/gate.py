"""`spanmarker gate`: a gate for a finished model."""

from typing import Annotated, Any

import typer

gate = typer.Typer(help="Gates, which make tagging fast.", no_args_is_help=True, rich_markup_mode=None)


@gate.callback()
def _group() -> None:
    """Keep `fit` a command of its own, though it is the only one."""


@gate.command()
def fit(
    model: Annotated[str | None, typer.Option(help="Bundle to fit a gate to; stays as it is.")] = None,
    corpus: Annotated[
        list[str] | None,
        typer.Option(help="Unlabelled documents like those to be tagged: patterns, as for `tag`. Repeat for more."),
    ] = None,
    output: Annotated[
        str | None, typer.Option(help="Folder for the bundle with the gate; must not exist or be empty.")
    ] = None,
    job: Annotated[
        str | None, typer.Option(help="TOML file with any of these options; options given here win.")
    ] = None,
    sentences: Annotated[int | None, typer.Option(help="Sentences of the corpus to look at.  [default: 3000]")] = None,
    target_recall: Annotated[
        float | None,
        typer.Option(help="Share of the ungated model's entities that must pass, in text held out.  [default: 0.995]"),
    ] = None,
    annotated: Annotated[
        str | None, typer.Option(help="Annotated sentences: the curve then tells recall of gold and F1 too.")
    ] = None,
    scheme: Annotated[str | None, typer.Option(help="Label scheme of annotated tags, such as IOB2.")] = None,
    id_column: Annotated[str | None, typer.Option(help="Column or JSON key of the ids.  [default: id]")] = None,
    text_column: Annotated[str | None, typer.Option(help="Column or JSON key of the texts.  [default: text]")] = None,
    language: Annotated[str | None, typer.Option(help="Language, for the sentence splitter.  [default: en]")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or auto.  [default: cpu]")] = None,
) -> None:
    """Fit a gate to a model: from what it finds in unlabelled text, learn which words need no look.

    The model itself stays as it is. Its answers change only where the gate is switched on.
    """
    options: dict[str, Any] = {name: value for name, value in locals().items() if name != "job"}

    from rich.console import Console

    from pipelines.jobs.base import read_job
    from pipelines.jobs.fit_gate import GateJob
    from pipelines.runs.fit_gate import run_gate_fit

    run_gate_fit(read_job(GateJob, job, options), Console())

"""`spanmarker gate`: fits a gate to a trained model."""

from typing import Annotated, Any

import typer

gate = typer.Typer(
    help="Gates: filters that discard unlikely spans early and make tagging faster.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@gate.callback()
def _group() -> None:
    """Keep `fit` a subcommand although it is the only one."""


@gate.command()
def fit(
    model: Annotated[str | None, typer.Option(help="Bundle to fit a gate to; it is not modified.")] = None,
    corpus: Annotated[
        list[str] | None,
        typer.Option(
            help="Unlabelled documents similar to those to be tagged: glob patterns, as for `tag`. Can be repeated."
        ),
    ] = None,
    output: Annotated[
        str | None, typer.Option(help="Folder for the bundle with the gate; must be empty or not exist.")
    ] = None,
    job: Annotated[
        str | None,
        typer.Option(help="TOML file with any of these options; options on the command line take precedence."),
    ] = None,
    sentences: Annotated[
        int | None, typer.Option(help="Number of sentences to read from the corpus.  [default: 3000]")
    ] = None,
    target_recall: Annotated[
        float | None,
        typer.Option(
            help="Share of the ungated model's entities that must pass the gate, on held-out text.  [default: 0.995]"
        ),
    ] = None,
    annotated: Annotated[
        str | None, typer.Option(help="Annotated sentences; the curve then also shows gold recall and F1.")
    ] = None,
    scheme: Annotated[str | None, typer.Option(help="Label scheme of annotated tags, such as IOB2.")] = None,
    id_column: Annotated[str | None, typer.Option(help="Column or JSON key of the ids.  [default: id]")] = None,
    text_column: Annotated[str | None, typer.Option(help="Column or JSON key of the texts.  [default: text]")] = None,
    language: Annotated[
        str | None, typer.Option(help="Language of the texts, for the sentence splitter.  [default: en]")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or auto.  [default: cpu]")] = None,
) -> None:
    """Fit a gate to a model, using the entities that the model finds in unlabelled text.

    The model itself does not change. Its results change only where the gate is switched on.
    """
    options: dict[str, Any] = {name: value for name, value in locals().items() if name != "job"}

    from rich.console import Console

    from pipelines.jobs.base import read_job
    from pipelines.jobs.fit_gate import GateJob
    from pipelines.runs.fit_gate import run_gate_fit

    run_gate_fit(read_job(GateJob, job, options), Console())

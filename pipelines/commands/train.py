"""`spanmarker train`: annotated sentences and an encoder in, a model bundle out."""

from typing import Annotated, Any

import typer


def train(
    train: Annotated[
        str | None, typer.Option(help="Annotated sentences: .jsonl, CoNLL, or a `datasets` folder.")
    ] = None,
    dev: Annotated[str | None, typer.Option(help="Annotated sentences that choose the best epoch.")] = None,
    test: Annotated[str | None, typer.Option(help="Annotated sentences scored once at the end.")] = None,
    encoder: Annotated[str | None, typer.Option(help="Folder of a pretrained encoder.")] = None,
    output: Annotated[str | None, typer.Option(help="Folder for the bundle; must not exist or be empty.")] = None,
    job: Annotated[str | None, typer.Option(help="TOML file with any of these options and the card's texts.")] = None,
    scheme: Annotated[str | None, typer.Option(help="Label scheme of tagged data, such as IOB2.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the data.  [default: 3]")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Windows a step.  [default: 32]")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Peak of the linear schedule.  [default: 5e-5]")] = None,
    entity_max_length: Annotated[int | None, typer.Option(help="Words of the longest entity.  [default: 8]")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Tokens of a window.  [default: 256]")] = None,
    context: Annotated[str | None, typer.Option(help="sentence, document or block.  [default: sentence]")] = None,
    max_prev_context: Annotated[int | None, typer.Option(help="Limit of previous sentences.  [default: none]")] = None,
    max_next_context: Annotated[int | None, typer.Option(help="Limit of next sentences.  [default: none]")] = None,
    encoder_layers: Annotated[int | None, typer.Option(help="Keep the first layers only.  [default: all]")] = None,
    pair_layers: Annotated[
        int | None, typer.Option(help="Markers pair in the top layers only, for speed.  [default: all]")
    ] = None,
    gate: Annotated[
        bool | None, typer.Option("--gate/--no-gate", help="Train a gate too, for speed.  [default: no]")
    ] = None,
    gate_weight: Annotated[float | None, typer.Option(help="Of the gate, in the loss.  [default: 0.2]")] = None,
    gate_share: Annotated[
        float | None, typer.Option(help="With a gate: share of other spans to train on.  [default: 0.05]")
    ] = None,
    train_sentences: Annotated[int | None, typer.Option(help="Take the first so many.  [default: all]")] = None,
    seed: Annotated[int | None, typer.Option(help="Same seed, same model.  [default: 42]")] = None,
    weight_dtype: Annotated[str | None, typer.Option(help="float32 or float16, as stored.  [default: float32]")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or auto.  [default: auto]")] = None,
) -> None:
    """Train a model and write it as a self-contained bundle."""
    options: dict[str, Any] = {name: value for name, value in locals().items() if name != "job"}

    from rich.console import Console

    from pipelines.jobs import read_job
    from pipelines.training_job import TrainJob, run_training

    run_training(read_job(TrainJob, job, options), Console())

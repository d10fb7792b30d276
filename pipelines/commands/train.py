"""`spanmarker train`: trains a model bundle from annotated sentences and an encoder."""

from typing import Annotated, Any

import typer

from pipelines.commands.options import TagColumn, TokenColumn


def train(
    train: Annotated[
        str | None,
        typer.Option(help="Annotated data in any format of docs/formats.md, or the output of `prepare --annotated`."),
    ] = None,
    dev: Annotated[str | None, typer.Option(help="Annotated sentences that choose the best epoch.")] = None,
    test: Annotated[str | None, typer.Option(help="Annotated sentences that are scored once at the end.")] = None,
    encoder: Annotated[str | None, typer.Option(help="Folder of a pretrained encoder.")] = None,
    output: Annotated[str | None, typer.Option(help="Folder for the bundle; must be empty or not exist.")] = None,
    job: Annotated[
        str | None, typer.Option(help="TOML file with any of these options and the texts of the card.")
    ] = None,
    scheme: Annotated[str | None, typer.Option(help="Label scheme of tagged data, such as IOB2.")] = None,
    token_column: TokenColumn = None,
    tag_column: TagColumn = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the data.  [default: 3]")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Windows per step, over all processes.  [default: 32]")] = None,
    batch_tokens: Annotated[int | None, typer.Option(help="Tokens per step, instead of --batch-size.")] = None,
    accumulation: Annotated[
        int | None, typer.Option(help="Parts per step and process, to save memory.  [default: 1]")
    ] = None,
    precision: Annotated[str | None, typer.Option(help="float32, bf16 or fp16.  [default: float32]")] = None,
    gradient_checkpointing: Annotated[
        bool | None,
        typer.Option(
            "--gradient-checkpointing",
            help="Recompute marker states in the backward pass, to save memory.  [default: no]",
        ),
    ] = None,
    save_steps: Annotated[
        int | None, typer.Option(help="Steps between checkpoints.  [default: at the end of each epoch]")
    ] = None,
    report_to: Annotated[
        list[str] | None, typer.Option(help="A logging integration, such as tensorboard. Can be repeated.")
    ] = None,
    max_misaligned: Annotated[
        float | None,
        typer.Option(
            help="Maximum share of misaligned annotations, and of rejected records, in prepared data.  [default: 0.01]"
        ),
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Peak of the linear schedule.  [default: 5e-5]")] = None,
    head_learning_rate: Annotated[
        float | None, typer.Option(help="Learning rate of weights that are not pretrained.  [default: --learning-rate]")
    ] = None,
    negatives: Annotated[
        int | None, typer.Option(help="Train on at most N non-entity spans per window.  [default: all]")
    ] = None,
    boundary_smoothing: Annotated[
        float | None, typer.Option(help="Share of a label's probability given to spans one word off.  [default: 0]")
    ] = None,
    tag_weight: Annotated[
        float | None, typer.Option(help="Weight of a bundled tagging head in the loss.  [default: 0.1]")
    ] = None,
    tune_threshold: Annotated[
        bool | None,
        typer.Option("--tune-threshold", help="Store the score threshold that is best on dev.  [default: no]"),
    ] = None,
    entity_max_length: Annotated[
        int | None, typer.Option(help="Maximum length of an entity, in words.  [default: 8]")
    ] = None,
    decoder: Annotated[
        str | None,
        typer.Option(help="flat.v1, nested.v1 or all.v1: whether entities may nest or cross.  [default: flat.v1]"),
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(help="Maximum length of a window, in tokens.  [default: 256]")
    ] = None,
    context: Annotated[str | None, typer.Option(help="sentence, document or block.  [default: sentence]")] = None,
    max_prev_context: Annotated[
        int | None, typer.Option(help="Maximum number of previous sentences.  [default: none]")
    ] = None,
    max_next_context: Annotated[
        int | None, typer.Option(help="Maximum number of next sentences.  [default: none]")
    ] = None,
    architecture: Annotated[
        str | None, typer.Option(help="How spans are scored, see docs/architectures.md.  [default: span_marker]")
    ] = None,
    options: Annotated[
        list[str] | None, typer.Option("--option", help="NAME=VALUE, an option of the architecture. Can be repeated.")
    ] = None,
    encoder_layers: Annotated[
        int | None, typer.Option(help="Keep only the first N layers of the encoder.  [default: all]")
    ] = None,
    pair_layers: Annotated[
        int | None, typer.Option(help="Pair markers in the top N layers only, for speed.  [default: all]")
    ] = None,
    gate: Annotated[
        bool | None, typer.Option("--gate/--no-gate", help="Also train a gate, for speed.  [default: no]")
    ] = None,
    gate_ends: Annotated[
        bool | None,
        typer.Option("--gate-ends/--no-gate-ends", help="With a gate: also learn where entities end.  [default: yes]"),
    ] = None,
    gate_weight: Annotated[float | None, typer.Option(help="Weight of the gate in the loss.  [default: 0.2]")] = None,
    gate_share: Annotated[
        float | None, typer.Option(help="With a gate: share of spans at other words to train on.  [default: 0.05]")
    ] = None,
    train_sentences: Annotated[
        int | None, typer.Option(help="Use only the first N training sentences.  [default: all]")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Random seed; the same seed gives the same model.  [default: 42]")
    ] = None,
    weight_dtype: Annotated[
        str | None, typer.Option(help="Stored number format, float32 or float16.  [default: float32]")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or auto.  [default: auto]")] = None,
) -> None:
    """Train a model and write it as a self-contained bundle.

    Under torchrun or accelerate launch, processes share each step. Running the same command again resumes an
    interrupted training.
    """
    given: dict[str, Any] = {name: value for name, value in locals().items() if name != "job"}

    from rich.console import Console

    from pipelines.jobs.base import read_job
    from pipelines.jobs.train import TrainJob

    checked = read_job(TrainJob, job, given)

    # Only now, since they bring torch and transformers, which take seconds.
    from pipelines.runs.train import run_training
    from spanmarker_core.training.distributed import leave

    try:
        run_training(checked, Console())
    finally:
        leave()

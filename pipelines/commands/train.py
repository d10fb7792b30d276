"""`spanmarker train`: annotated sentences and an encoder in, a model bundle out."""

from typing import Annotated, Any

import typer


def train(
    train: Annotated[
        str | None,
        typer.Option(
            help="Annotated sentences: .jsonl, CoNLL, a `datasets` folder, or what `prepare --annotated` wrote."
        ),
    ] = None,
    dev: Annotated[str | None, typer.Option(help="Annotated sentences that choose the best epoch.")] = None,
    test: Annotated[str | None, typer.Option(help="Annotated sentences scored once at the end.")] = None,
    encoder: Annotated[str | None, typer.Option(help="Folder of a pretrained encoder.")] = None,
    output: Annotated[str | None, typer.Option(help="Folder for the bundle; must not exist or be empty.")] = None,
    job: Annotated[str | None, typer.Option(help="TOML file with any of these options and the card's texts.")] = None,
    scheme: Annotated[str | None, typer.Option(help="Label scheme of tagged data, such as IOB2.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the data.  [default: 3]")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Windows a step, over all processes.  [default: 32]")] = None,
    batch_tokens: Annotated[int | None, typer.Option(help="Tokens a step, in place of windows.")] = None,
    accumulation: Annotated[
        int | None, typer.Option(help="Parts of a step that a process does in turn, for memory.  [default: 1]")
    ] = None,
    precision: Annotated[str | None, typer.Option(help="float32, bf16 or fp16.  [default: float32]")] = None,
    gradient_checkpointing: Annotated[
        bool | None,
        typer.Option("--gradient-checkpointing", help="Compute markers' states twice, for memory.  [default: no]"),
    ] = None,
    save_steps: Annotated[
        int | None, typer.Option(help="Steps between checkpoints.  [default: at the ends of epochs]")
    ] = None,
    report_to: Annotated[
        list[str] | None, typer.Option(help="A logging integration, such as tensorboard. Repeat for more.")
    ] = None,
    max_misaligned: Annotated[
        float | None,
        typer.Option(help="Share of prepared annotations that may be no words, or records rejected.  [default: 0.01]"),
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Peak of the linear schedule.  [default: 5e-5]")] = None,
    head_learning_rate: Annotated[
        float | None, typer.Option(help="Of weights that are not pretrained.  [default: as the others]")
    ] = None,
    negatives: Annotated[
        int | None, typer.Option(help="Train on so many spans a window that are no entity.  [default: all]")
    ] = None,
    boundary_smoothing: Annotated[
        float | None, typer.Option(help="Share of a label that spans a word off get.  [default: 0]")
    ] = None,
    tag_weight: Annotated[
        float | None, typer.Option(help="Of a bundled head of tags, in the loss.  [default: 0.1]")
    ] = None,
    tune_threshold: Annotated[
        bool | None,
        typer.Option("--tune-threshold", help="Give the bundle the score threshold best on dev.  [default: no]"),
    ] = None,
    entity_max_length: Annotated[int | None, typer.Option(help="Words of the longest entity.  [default: 8]")] = None,
    decoder: Annotated[
        str | None, typer.Option(help="flat.v1, nested.v1 or all.v1: may entities nest or cross?  [default: flat.v1]")
    ] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Tokens of a window.  [default: 256]")] = None,
    context: Annotated[str | None, typer.Option(help="sentence, document or block.  [default: sentence]")] = None,
    max_prev_context: Annotated[int | None, typer.Option(help="Limit of previous sentences.  [default: none]")] = None,
    max_next_context: Annotated[int | None, typer.Option(help="Limit of next sentences.  [default: none]")] = None,
    architecture: Annotated[
        str | None, typer.Option(help="How spans are scored, see docs/architectures.md.  [default: span_marker]")
    ] = None,
    options: Annotated[
        list[str] | None, typer.Option("--option", help="NAME=VALUE of the architecture. Repeat for more.")
    ] = None,
    encoder_layers: Annotated[int | None, typer.Option(help="Keep the first layers only.  [default: all]")] = None,
    pair_layers: Annotated[
        int | None, typer.Option(help="Markers pair in the top layers only, for speed.  [default: all]")
    ] = None,
    gate: Annotated[
        bool | None, typer.Option("--gate/--no-gate", help="Train a gate too, for speed.  [default: no]")
    ] = None,
    gate_ends: Annotated[
        bool | None,
        typer.Option("--gate-ends/--no-gate-ends", help="With a gate: learn where entities end too.  [default: yes]"),
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
    """Train a model and write it as a self-contained bundle.

    Under torchrun or accelerate launch, processes share each step. The same command goes on where it broke off.
    """
    given: dict[str, Any] = {name: value for name, value in locals().items() if name != "job"}

    from rich.console import Console

    from pipelines.jobs.base import read_job
    from pipelines.jobs.train import TrainJob
    from pipelines.runs.train import run_training
    from spanmarker_core.training.distributed import leave

    try:
        run_training(read_job(TrainJob, job, given), Console())
    finally:
        leave()

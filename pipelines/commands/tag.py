"""`spanmarker tag`: tags a corpus and writes entity rows."""

from typing import Annotated, Any

import typer

from pipelines.commands import options


def tag(
    context: typer.Context,
    input: options.Input = None,
    output: Annotated[str | None, typer.Option(help="Folder for the rows, local or an fsspec URL.")] = None,
    model: options.Model = None,
    job: options.Job = None,
    id_column: options.IdColumn = None,
    text_column: options.TextColumn = None,
    language: options.Language = None,
    decoder: Annotated[
        str | None, typer.Option(help="flat.v1, nested.v1 or all.v1.  [default: as stored in the model]")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Minimum score of a row, 0 to 1.  [default: as stored in the model]")
    ] = None,
    gate: Annotated[
        str | None,
        typer.Option(
            help="auto, on or off: score only spans that pass the model's gate. off is exact; on also uses a gate "
            "that was fitted after training.  [default: auto, as the model was trained]"
        ),
    ] = None,
    engine: options.Engine = None,
    workers: Annotated[int | None, typer.Option(help="Worker processes, each with one model.  [default: 1]")] = None,
    threads: options.Threads = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 or auto.  [default: cpu]")] = None,
    dtype: Annotated[
        str | None, typer.Option(help="float32; bfloat16 or int8, which change scores.  [default: float32]")
    ] = None,
    max_shard_bytes: options.MaxShardBytes = None,
    samples: Annotated[
        str | None, typer.Option(help="Output folder of `spanmarker prepare`, to tag instead of --input.")
    ] = None,
    scheduler: options.Scheduler = None,
    resources: Annotated[
        list[str] | None,
        typer.Option(help="Dask: tag only on workers with this resource, such as GPU=1. Can be repeated."),
    ] = None,
    storage_option: options.StorageOption = None,
    shard_timeout: options.ShardTimeout = None,
    worker_memory: options.WorkerMemory = None,
    max_rejects: Annotated[
        str | None,
        typer.Option(
            help="Maximum number or share of rejected documents, such as 100 or 1%; if exceeded, the run fails (exit "
            "code 4)."
        ),
    ] = None,
    prune: Annotated[bool | None, typer.Option("--prune", help="Remove rows of inputs that no longer exist.")] = None,
    force: options.Force = None,
    metrics: options.Metrics = None,
    log_json: options.LogJson = None,
) -> None:
    """Tag documents with named entities and write them as Parquet.

    Running the same command again processes only what is missing: after a crash, or for new or changed files.
    Arguments after -- are passed to Beam, for example: spanmarker tag … --engine beam -- --runner=FlinkRunner
    """
    values: dict[str, Any] = {name: value for name, value in locals().items() if name not in ("job", "context")}
    values["beam_options"] = context.args

    from rich.console import Console

    from pipelines.jobs.base import read_job
    from pipelines.jobs.tag import TagJob
    from pipelines.runs.run import run_job

    run_job(read_job(TagJob, job, values), Console())

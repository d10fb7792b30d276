"""`spanmarker prepare`: writes a corpus as samples, for `spanmarker tag --samples` or `spanmarker train`."""

from typing import Annotated, Any

import typer

from pipelines.commands import options


def prepare(
    context: typer.Context,
    input: options.Input = None,
    output: Annotated[str | None, typer.Option(help="Folder for the samples, local or an fsspec URL.")] = None,
    model: options.Model = None,
    annotated: Annotated[
        bool | None, typer.Option("--annotated", help="Prepare annotated data for training with --encoder.")
    ] = None,
    encoder: Annotated[str | None, typer.Option(help="Annotated: folder of the pretrained encoder.")] = None,
    scheme: Annotated[str | None, typer.Option(help="Annotated: label scheme of tagged data, such as IOB2.")] = None,
    token_column: options.TokenColumn = None,
    tag_column: options.TagColumn = None,
    entity_max_length: Annotated[
        int | None, typer.Option(help="Annotated: maximum length of an entity, in words.  [default: 8]")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(help="Annotated: maximum length of a window, in tokens.  [default: 256]")
    ] = None,
    window_context: Annotated[
        str | None, typer.Option("--context", help="Annotated: sentence, document or block.  [default: sentence]")
    ] = None,
    max_prev_context: Annotated[
        int | None, typer.Option(help="Annotated: maximum number of previous sentences.  [default: none]")
    ] = None,
    max_next_context: Annotated[
        int | None, typer.Option(help="Annotated: maximum number of next sentences.  [default: none]")
    ] = None,
    splitter: Annotated[
        str | None, typer.Option(help="Annotated: words.v1 or tokenizer.v1, for documents.  [default: words.v1]")
    ] = None,
    job: options.Job = None,
    id_column: options.IdColumn = None,
    text_column: options.TextColumn = None,
    language: options.Language = None,
    engine: options.Engine = None,
    workers: Annotated[int | None, typer.Option(help="Worker processes.  [default: 1]")] = None,
    threads: options.Threads = None,
    max_shard_bytes: options.MaxShardBytes = None,
    scheduler: options.Scheduler = None,
    resources: Annotated[
        list[str] | None, typer.Option(help="Dask: prepare only on workers with this resource, such as CPU=1.")
    ] = None,
    storage_option: options.StorageOption = None,
    shard_timeout: options.ShardTimeout = None,
    worker_memory: options.WorkerMemory = None,
    prune: Annotated[
        bool | None, typer.Option("--prune", help="Remove samples of inputs that no longer exist.")
    ] = None,
    force: options.Force = None,
    metrics: options.Metrics = None,
    log_json: options.LogJson = None,
) -> None:
    """Read, split and pack documents, so that machines with a GPU only have to tag: spanmarker tag --samples OUTPUT.

    This needs the model's tokenizer but not torch. Tagging the samples writes the same rows as tagging the documents
    directly. Running the same command again processes only what is missing. Samples reflect the documents as they were
    read: if the inputs change, prepare and tag again. Arguments after -- are passed to Beam.

    With --annotated, the input is annotated sentences or documents, and the output is windows with their entities, for
    spanmarker train --train OUTPUT. Inputs are files in any format of docs/formats.md, and folders saved by datasets.
    Annotations that cannot be learned are listed, with the reason, in gold_problems/ and summary.json.
    """
    values: dict[str, Any] = {name: value for name, value in locals().items() if name not in ("job", "context")}
    values["context"] = values.pop("window_context")
    values["beam_options"] = context.args

    from rich.console import Console

    from pipelines.jobs.base import ShardJob, job_values, read_job
    from pipelines.jobs.prepare import PrepareJob
    from pipelines.jobs.prepare_training import AnnotatedJob
    from pipelines.runs.run import run_job

    kind: type[ShardJob] = AnnotatedJob if annotated or job_values(job).get("annotated") else PrepareJob
    run_job(read_job(kind, job, values), Console())

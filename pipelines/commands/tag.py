"""`spanmarker tag`: a corpus in, entity rows out."""

from typing import Annotated, Any

import typer


def tag(
    input: Annotated[
        list[str] | None,
        typer.Option(help="Input files: a pattern such as 'docs/*.parquet', local or an fsspec URL. Repeat for more."),
    ] = None,
    output: Annotated[str | None, typer.Option(help="Folder for the rows, local or an fsspec URL.")] = None,
    model: Annotated[str | None, typer.Option(help="Model bundle.  [default: the bundled model]")] = None,
    job: Annotated[
        str | None, typer.Option(help="TOML file with any of these options; options given here win.")
    ] = None,
    id_column: Annotated[str | None, typer.Option(help="Column or JSON key of the ids.  [default: id]")] = None,
    text_column: Annotated[str | None, typer.Option(help="Column or JSON key of the texts.  [default: text]")] = None,
    language: Annotated[str | None, typer.Option(help="Language, for the sentence splitter.  [default: en]")] = None,
    decoder: Annotated[
        str | None, typer.Option(help="flat.v1, nested.v1 or all.v1.  [default: as the model says]")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Least score of a row, 0 to 1.  [default: as the model says]")
    ] = None,
    gate: Annotated[
        str | None,
        typer.Option(
            help="auto, on or off: score only the spans that the model's gate lets pass. Off is exact; on also takes "
            "a gate that was fitted later.  [default: auto, as the model was trained]"
        ),
    ] = None,
    engine: Annotated[str | None, typer.Option(help="Where shards run.  [default: local]")] = None,
    workers: Annotated[int | None, typer.Option(help="Worker processes, one model each.  [default: 1]")] = None,
    threads: Annotated[
        int | None, typer.Option(help="CPU threads a worker.  [default: the cores shared among the workers]")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 or auto.  [default: cpu]")] = None,
    dtype: Annotated[
        str | None, typer.Option(help="float32, or bfloat16, which changes scores.  [default: float32]")
    ] = None,
    max_shard_bytes: Annotated[
        int | None, typer.Option(help="Bytes of text in a unit of work, about.  [default: 4194304]")
    ] = None,
) -> None:
    """Tag documents with named entities and write them as Parquet.

    The same command again does only what is missing: after a crash, for new files, for changed ones.
    """
    options: dict[str, Any] = {name: value for name, value in locals().items() if name != "job"}

    from rich.console import Console

    from pipelines.jobs import TagJob, read_job
    from pipelines.run import run_tag

    run_tag(read_job(TagJob, job, options), Console())

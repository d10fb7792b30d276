"""Options shared by `spanmarker tag` and `spanmarker prepare`, the fields of `pipelines.jobs.base.CorpusJob`."""

from typing import Annotated

import typer

Input = Annotated[
    list[str] | None,
    typer.Option(help="Input files: a glob pattern such as 'docs/*.parquet', local or an fsspec URL. Can be repeated."),
]
Model = Annotated[str | None, typer.Option(help="Model bundle.  [default: the bundled model]")]
Job = Annotated[
    str | None, typer.Option(help="TOML file with any of these options; options on the command line take precedence.")
]
IdColumn = Annotated[str | None, typer.Option(help="Column or JSON key of the ids.  [default: id]")]
TextColumn = Annotated[str | None, typer.Option(help="Column or JSON key of the texts.  [default: text]")]
TokenColumn = Annotated[
    str | None,
    typer.Option(help="CoNLL: column of the words, by number (from 0) or name.  [default: the first but for an index]"),
]
TagColumn = Annotated[
    str | None, typer.Option(help="CoNLL: column of the tags, by number (-1 is the last) or name.  [default: -1]")
]
Language = Annotated[str | None, typer.Option(help="Language of the texts, for the sentence splitter.  [default: en]")]
Engine = Annotated[str | None, typer.Option(help="Where shards are processed: local, dask or beam.  [default: local]")]
Threads = Annotated[
    int | None, typer.Option(help="CPU threads per worker.  [default: the cores divided by the workers]")
]
MaxShardBytes = Annotated[
    int | None, typer.Option(help="Approximate size of a shard, in bytes of text.  [default: 4194304]")
]
Scheduler = Annotated[
    str | None,
    typer.Option(help="Dask: address of a scheduler, tcp://HOST:PORT.  [default: a cluster on this machine]"),
]
StorageOption = Annotated[
    list[str] | None,
    typer.Option(help="KEY=VALUE or PROTOCOL.KEY=VALUE for the object store's library. Can be repeated."),
]
ShardTimeout = Annotated[
    float | None,
    typer.Option(help="Time limit per shard in seconds; a worker that exceeds it is replaced.  [default: none]"),
]
WorkerMemory = Annotated[
    str | None,
    typer.Option(help="Memory limit per worker, such as 4GB; a worker that exceeds it is replaced.  [default: none]"),
]
Force = Annotated[
    bool | None, typer.Option("--force", help="Start from scratch, even if the output belongs to another job.")
]
Metrics = Annotated[str | None, typer.Option(help="File for metrics in the Prometheus text format.")]
LogJson = Annotated[str | None, typer.Option(help="File for the log, one JSON object per line; - is standard error.")]

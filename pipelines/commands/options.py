"""Options that `spanmarker tag` and `spanmarker prepare` share, as the fields of `jobs.CorpusJob`."""

from typing import Annotated

import typer

Input = Annotated[
    list[str] | None,
    typer.Option(help="Input files: a pattern such as 'docs/*.parquet', local or an fsspec URL. Repeat for more."),
]
Model = Annotated[str | None, typer.Option(help="Model bundle.  [default: the bundled model]")]
Job = Annotated[str | None, typer.Option(help="TOML file with any of these options; options given here win.")]
IdColumn = Annotated[str | None, typer.Option(help="Column or JSON key of the ids.  [default: id]")]
TextColumn = Annotated[str | None, typer.Option(help="Column or JSON key of the texts.  [default: text]")]
Language = Annotated[str | None, typer.Option(help="Language, for the sentence splitter.  [default: en]")]
Engine = Annotated[str | None, typer.Option(help="Where shards run: local, dask or beam.  [default: local]")]
Threads = Annotated[
    int | None, typer.Option(help="CPU threads a worker.  [default: the cores shared among the workers]")
]
MaxShardBytes = Annotated[int | None, typer.Option(help="Bytes of text in a unit of work, about.  [default: 4194304]")]
Scheduler = Annotated[
    str | None,
    typer.Option(help="Dask: tcp://HOST:PORT of a scheduler.  [default: a cluster on this machine]"),
]
StorageOption = Annotated[
    list[str] | None,
    typer.Option(help="KEY=VALUE, or PROTOCOL.KEY=VALUE, for the object store's library. Repeat for more."),
]
ShardTimeout = Annotated[
    float | None, typer.Option(help="Seconds after which the worker of a shard is replaced.  [default: never]")
]
WorkerMemory = Annotated[
    str | None, typer.Option(help="Memory at which a worker is replaced, such as 4GB.  [default: none]")
]
Force = Annotated[
    bool | None, typer.Option("--force", help="Do everything anew, also where the output is of another job.")
]
Metrics = Annotated[str | None, typer.Option(help="File for metrics in Prometheus' text format.")]
LogJson = Annotated[str | None, typer.Option(help="File for the log, one JSON object a line; - is standard error.")]

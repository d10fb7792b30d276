"""Base models of jobs over shards: flat, typed, without extra fields. All errors of a job are reported before any work.

Descriptions of fields are the help texts of the options, which `pipelines.commands.options` makes from them.
"""

from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import ByteSize, Field, field_validator

from pipelines import CODE_VERSION
from pipelines.engines import ENGINES, Settings
from pipelines.jobs.gateway import parse_gateway
from pipelines.jobs.hidden import HIDDEN
from pipelines.jobs.problems import not_one_of
from pipelines.jobs.reject_limit import MaxRejects
from pipelines.jobs.shared import DocumentColumns, InputFormat
from pipelines.processes.cores import threads_per_worker
from pipelines.stages.languages import AUTO
from pipelines.storage import absolute
from pipelines.task import DEFAULT_ID, Columns, Task
from spanmarker_core.bundle.reader import BundleInfo
from spanmarker_core.bundle.repositories import find_bundle, repository_of
from spanmarker_core.default_model import bundled_model_path
from spanmarker_core.shown import Panel, Shown
from spanmarker_core.text.detection import DETECTOR
from spanmarker_core.text.sentences import SentenceBreaks

Inputs = Annotated[
    list[str],
    Shown(Panel.FILES, "PATH"),
    Field(
        description="Files, folders or patterns such as 'docs/*.parquet', local or fsspec URLs; - is standard input: "
        "JSON lines, or what --format says. More paths may follow; can be repeated."
    ),
]


class ShardJob(DocumentColumns):
    """Settings shared by all jobs over shards: what to read, where to write, and where to run."""

    #: Name of the command that runs the job.
    verb: ClassVar[str]

    input: Inputs = Field([])
    output: Annotated[str, Shown(Panel.FILES, "FOLDER")] = Field(
        min_length=1, description="Folder for the rows, local or an fsspec URL."
    )
    engine: Annotated[str, Shown(Panel.CLUSTER, "local|dask|beam")] = Field(
        "local", description="Where shards are processed: local, dask or beam."
    )
    workers: Annotated[int, Shown(Panel.SPEED, "N")] = Field(
        1, ge=1, description="Worker processes, each with one model."
    )
    threads: Annotated[int, Shown(Panel.SPEED, "N")] = Field(
        0,
        ge=0,
        description="CPU threads per worker.  [default: the cores that the CPU quota allows, divided by the workers; "
        "at most OMP_NUM_THREADS]",
    )
    scheduler: Annotated[str | None, Shown(Panel.CLUSTER, "ADDRESS")] = Field(
        None,
        description="Dask: address of a scheduler, tcp://HOST:PORT.  [default: a cluster on this machine]",
    )
    resources: Annotated[dict[str, float], Shown(Panel.CLUSTER, "NAME=AMOUNT")] = Field(
        {}, description="Dask: tag only on workers with this resource, such as GPU=1. Can be repeated."
    )
    beam_options: Annotated[list[str], Shown(Panel.CLUSTER, "OPTION")] = Field(
        [], description="Beam: options for Beam itself, such as --runner=FlinkRunner."
    )
    storage_option: Annotated[list[str], Shown(Panel.FILES, "KEY=VALUE")] = Field(
        [], description="KEY=VALUE or PROTOCOL.KEY=VALUE for the object store's library. Can be repeated."
    )
    max_shard_bytes: Annotated[int | None, Shown(Panel.SPEED, "BYTES")] = Field(
        None,
        ge=1,
        description="Approximate size of a shard, in bytes of text.  [default: so that each worker has 8 shards, from "
        "131072 to 4194304; later runs keep it]",
    )
    shard_timeout: Annotated[float, Shown(Panel.RELIABILITY, "SECONDS")] = Field(
        0,
        ge=0,
        description="Time limit per shard in seconds; a worker that exceeds it is replaced.  [default: none]",
    )
    worker_memory: Annotated[ByteSize, Shown(Panel.RELIABILITY, "SIZE")] = Field(
        ByteSize(0),
        ge=0,
        description="Memory limit per worker, such as 4GB; a worker that exceeds it is replaced.  [default: none]",
    )
    prune: Annotated[bool, Shown(Panel.RELIABILITY)] = Field(
        False, description="Remove rows of inputs that no longer exist."
    )
    force: Annotated[bool, Shown(Panel.RELIABILITY)] = Field(
        False, description="Start from scratch, even if the output belongs to another job."
    )
    metrics: Annotated[str | None, Shown(Panel.OBSERVABILITY, "FILE")] = Field(
        None, description="File for metrics in the Prometheus text format."
    )
    metrics_push: Annotated[str | None, Shown(Panel.OBSERVABILITY, "URL")] = Field(
        None,
        description="URL of a Prometheus Pushgateway, to which metrics are pushed at the start, every 30 s and at the "
        "end.",
    )
    log_json: Annotated[str | None, Shown(Panel.OBSERVABILITY, "FILE")] = Field(
        None, description="File for the log, one JSON object per line; - is standard error."
    )

    @field_validator("input", "beam_options", "storage_option", mode="before")
    @classmethod
    def _one_of_many(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @field_validator("resources", mode="before")
    @classmethod
    def _named_amounts(cls, value: Any) -> Any:
        """Accept ["GPU=1"], the form on the command line, for {"GPU": 1}."""
        if not isinstance(value, list):
            return value
        pairs = [str(item).partition("=") for item in value]
        if wrong := [name for name, _, amount in pairs if not name or not amount]:
            raise ValueError(f"{wrong[0]!r} is not NAME=AMOUNT")
        return {name: amount for name, _, amount in pairs}

    @field_validator("metrics_push")
    @classmethod
    def _known_gateway(cls, value: str | None) -> str | None:
        if value is not None:
            parse_gateway(value)
        return value

    @field_validator("engine")
    @classmethod
    def _known_engine(cls, value: str) -> str:
        if value not in ENGINES:
            raise ValueError(not_one_of(value, ENGINES))
        return value

    def conflicts(self) -> list[str]:
        """Return a description of each combination of settings that is not possible."""
        problems = super().conflicts()
        others = {"dask": ("scheduler", "resources"), "beam": ("beam_options",)}
        for engine, names in others.items():
            if self.engine != engine and (given := [name for name in names if getattr(self, name)]):
                options = ", ".join("options after --" if name == "beam_options" else f"--{name}" for name in given)
                problems.append(f"{options}: only for --engine {engine}, but this job has --engine {self.engine}")
        if self.scheduler and "workers" in self.model_fields_set:
            problems.append("--workers is for a cluster on this machine, and --scheduler names another: remove one")
        return problems

    @property
    def threads_per_worker(self) -> int:
        """Return the number of CPU threads per worker; 0 leaves it to the worker process."""
        if self.threads or self.scheduler or self.beam_options:
            return self.threads  # Remote workers know their own cores.
        return threads_per_worker(self.workers)

    def described(self) -> dict[str, Any]:
        """Return the job for reports and logs, without the values of options that may hold secrets."""
        hidden: dict[str, Any] = {}
        for name, shown in HIDDEN.items():
            value = getattr(self, name)
            if isinstance(value, list):
                hidden[name] = [shown(each).removesuffix("=…") for each in value]
            else:
                hidden[name] = value and shown(value)
        return {**self.model_dump(mode="json"), **hidden}

    @property
    def cluster_workers(self) -> int | None:
        """Return the number of workers; None for those of a cluster that the job does not start."""
        return None if self.scheduler or self.beam_options else self.workers

    @property
    def settings(self) -> Settings:
        """Return the execution settings of the engine."""
        return Settings(self.workers, self.threads_per_worker, self.scheduler, self.resources, tuple(self.beam_options))

    def pinned(self) -> Self:
        """Return the job with commits in place of branches and tags of the hub.

        Raises:
            CoreError: `hub.*`, if a repository that the job names cannot be downloaded.
        """
        return self

    def read_values(self) -> dict[str, str]:
        """Return the part of the job identity that determines how inputs are read.

        The engine, the number of workers and threads, the device and the size of shards do not affect the rows, except
        for the last digits of scores: floats are then summed in another order.
        """
        return {
            "id_column": self.id_column or DEFAULT_ID,
            # Only where it makes a difference, so that earlier outputs keep their identity.
            **({"ids": "named"} if self.id_column == DEFAULT_ID else {}),
            "text_column": self.text_column,
            "language": self.language,
            "sentences": f"sentencex {version('sentencex')}",
            "code": CODE_VERSION,
        }

    def task_values(self, digest: str) -> dict[str, Any]:
        """Return the values of a shard task that all kinds of jobs share.

        Args:
            digest: digest of the job identity.
        """
        return {
            "output": absolute(self.output),
            "job": digest,
            "columns": self.columns,
            "language": self.language,
            "code": CODE_VERSION,
            "threads": self.threads_per_worker,
            "shard_seconds": self.shard_timeout,
            "worker_bytes": int(self.worker_memory),
            "storage_options": tuple(self.storage_option),
        }


class CorpusJob(ShardJob):
    """Settings shared by `spanmarker tag` and `spanmarker prepare`: those of `ShardJob`, a model and limits."""

    detects = True

    model: Annotated[str, Shown(Panel.MODEL, "MODEL")] = Field(
        "",
        description="Folder of a model bundle, or a repository on the Hub, owner/name or owner/name@revision.  "
        "[default: the bundled model]",
    )
    format: InputFormat = None
    keep_columns: Annotated[list[str], Shown(Panel.FILES, "NAMES")] = Field(
        [],
        description="Columns of the input to copy to the table documents, separated by commas: names, paths such as "
        "meta.url, keys of Hive partitions such as year=2024/, NAME=NEW_NAME, or all.",
    )
    language: Annotated[str, Shown(Panel.FILES, "CODE")] = Field(
        "en",
        description="Language of the texts, for the sentence splitter: a code such as de, or its English name; auto "
        "detects it in each document.",
    )
    language_column: Annotated[str | None, Shown(Panel.FILES, "NAME")] = Field(
        None,
        min_length=1,
        description="Column or JSON key of the language of each document. --language applies where that is missing or "
        "unknown.",
    )
    sentence_breaks: Annotated[SentenceBreaks, Shown(Panel.FILES)] = Field(
        "auto",
        description="Where a sentence may end: auto ignores single line ends, as in wrapped prose; lines ends one "
        "at each line end, as for lists.",
    )
    max_rejects: Annotated[str | None, Shown(Panel.RELIABILITY, "N|N%")] = Field(
        None,
        description="Maximum number or share of rejected documents, such as 100 or 1%; if exceeded, the run fails "
        "(exit code 4).  [default: fail if all are rejected]",
    )

    @field_validator("max_rejects", mode="before")
    @classmethod
    def _limit(cls, value: Any) -> Any:
        """Accept a number from a job file as well as a string."""
        return MaxRejects.parse(str(value)).text if isinstance(value, int | str) else value

    @field_validator("keep_columns", mode="before")
    @classmethod
    def _separated(cls, value: Any) -> Any:
        given = [value] if isinstance(value, str) else value
        if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
            return given
        names = [name.strip() for each in given for name in each.split(",")]
        if "" in names or any(name.startswith("=") or name.endswith("=") for name in names):
            raise ValueError("a name is empty; separate names by single commas, as in title,url")
        return list(dict.fromkeys(names))

    @property
    def columns(self) -> Columns:
        """Columns of the inputs."""
        return replace(super().columns, language=self.language_column)

    def read_values(self) -> dict[str, str]:
        """Return the part of the job identity that determines how inputs are read.

        An option adds a value only if it is given, so that the identities of earlier jobs stay the same.
        """
        values = super().read_values()
        if self.language == AUTO:
            values["detector"] = f"{DETECTOR} {version(DETECTOR)}"
        if self.language_column is not None:
            values["language_column"] = self.language_column
        if self.sentence_breaks != "auto":
            values["sentence_breaks"] = self.sentence_breaks
        return values

    def described(self) -> dict[str, Any]:
        """Return the job for reports and logs, without the values of options that may hold secrets."""
        return {**super().described(), "model": self.model_name or self.model_path}

    @property
    def model_name(self) -> str:
        """Return where every machine finds the bundle: an absolute path, or a repository; "" for the bundled model."""
        if not self.model or repository_of(self.model) is not None:
            return self.model
        return str(Path(self.model).absolute())

    @property
    def model_path(self) -> str:
        """Return the folder of the bundle on this machine; one of a repository is downloaded first.

        Raises:
            CoreError: `hub.*`, as in `find_bundle`.
        """
        return str(find_bundle(self.model_name).path if self.model else bundled_model_path())

    def pinned(self) -> Self:
        """Return the job with the commit of its model in place of a branch or tag; the model is downloaded.

        Raises:
            CoreError: `hub.*`, as in `find_bundle`.
        """
        return self.model_copy(update={"model": find_bundle(self.model).name}) if self.model else self

    def identity(self, info: BundleInfo) -> dict[str, str]:
        """Return the job identity: everything except the inputs that determines the rows.

        Jobs with different identities are different jobs.

        Args:
            info: metadata of the model bundle.
        """
        return {"model": info.digest, **self.read_values()}

    def task(self, info: BundleInfo, digest: str) -> Task:
        """Return the shard task of the job.

        Args:
            info: metadata of the model bundle.
            digest: digest of the job identity.
        """
        return Task(**self._task_values(info, digest))

    def _task_values(self, info: BundleInfo, digest: str) -> dict[str, Any]:
        return {
            **self.task_values(digest),
            "sentence_breaks": self.sentence_breaks,
            "model": self.model_name,
            "model_digest": info.digest,
        }

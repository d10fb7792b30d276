"""Job configuration: flat, typed, closed. What is wrong with a job is said all at once, before any work.

A job file is TOML with the same names as the command's options:

    # spanmarker tag --job tag.toml
    input = ["docs/*.parquet"]
    output = "out/"
    workers = 2
"""

import os
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from pipelines import CODE_VERSION
from pipelines.bundled import bundled_model_path
from pipelines.engines import ENGINES
from pipelines.errors import PipelineError
from pipelines.storage import absolute
from pipelines.task import Task
from schemas import ANNOTATIONS, DOCUMENTS, REJECTS
from spanmarker_core.bundle import BundleInfo, gate_threshold, gate_words


class TagJob(BaseModel):
    """One `spanmarker tag`: everything that decides what is read, what is done and where it goes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: list[str] = Field(min_length=1, description="patterns of input files, local or fsspec URLs")
    output: str = Field(min_length=1, description="folder for the rows, local or an fsspec URL")
    model: str = Field(default_factory=lambda: str(bundled_model_path()), description="bundle; else the bundled one")
    id_column: str = Field("id", description="column or JSON key of the ids: strings or integers")
    text_column: str = Field("text", description="column or JSON key of the texts")
    language: str = Field("en", description="language of the texts, for the sentence splitter")
    decoder: str | None = Field(None, description="flat.v1, nested.v1 or all.v1; else as the bundle says")
    threshold: float | None = Field(None, ge=0, le=1, description="least score of a row; else as the bundle says")
    gate: Literal["auto", "on", "off"] = Field(
        "auto", description="score only spans that the model's gate lets pass: as the model was trained, always, never"
    )
    engine: str = Field("local", description="where shards run")
    workers: int = Field(1, ge=1, description="worker processes, one model each")
    threads: int = Field(0, ge=0, description="CPU threads a worker; 0 shares the cores among the workers")
    device: str = Field("cpu", description="cpu, cuda, cuda:1, … or auto")
    dtype: Literal["float32", "bfloat16"] = Field("float32", description="number format of the model")
    max_shard_bytes: int = Field(4 << 20, ge=1, description="bytes of text a shard holds, about")

    @field_validator("input", mode="before")
    @classmethod
    def _one_pattern(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @field_validator("engine")
    @classmethod
    def _known_engine(cls, value: str) -> str:
        if value not in ENGINES:
            raise ValueError(f"{value!r} is not one of {', '.join(ENGINES)}")
        return value

    @model_validator(mode="after")
    def _two_columns(self) -> "TagJob":
        if self.id_column == self.text_column:
            raise ValueError(f"id_column and text_column are both {self.id_column!r}")
        return self

    @property
    def threads_per_worker(self) -> int:
        """CPU threads of one worker."""
        return self.threads or max(1, _cores() // self.workers)

    def identity(self, info: BundleInfo) -> dict[str, str]:
        """Return everything but the inputs that decides the rows. Another identity is another job.

        Where the job runs (engine, workers, threads, device) and how it is cut changes no row but for the last
        digits of scores, since floats are then summed in another order.

        Raises:
            CoreError: `call.no_gate`.
        """
        threshold = info.config.threshold if self.threshold is None else self.threshold
        return {
            "model": info.digest,
            "decoder": self.decoder or info.config.decoder,
            "threshold": str(threshold),
            "gate": gate_words(gate_threshold(info.config, self.gate, info.path)),
            "dtype": self.dtype,
            "id_column": self.id_column,
            "text_column": self.text_column,
            "language": self.language,
            "sentences": f"sentencex {version('sentencex')}",
            "code": CODE_VERSION,
            **{f"schema.{table.name}": str(table.version) for table in (ANNOTATIONS, DOCUMENTS, REJECTS)},
        }

    def task(self, info: BundleInfo, digest: str) -> Task:
        """Return what a shard task needs of the job. `digest` is that of the identity."""
        return Task(
            output=absolute(self.output),
            job=digest,
            model=str(Path(self.model).absolute()),
            model_digest=info.digest,
            device=self.device,
            dtype=self.dtype,
            id_column=self.id_column,
            text_column=self.text_column,
            language=self.language,
            decoder=self.decoder or info.config.decoder,
            threshold=self.threshold,
            gate=self.gate,
        )


Job = TypeVar("Job", bound=BaseModel)


def read_job(kind: type[Job], path: str | None, options: dict[str, Any]) -> Job:
    """Read a job file, if any, and lay `options` over it; those that are None or empty were not given.

    Raises:
        PipelineError: `job.unreadable`, or `job.invalid` with every problem.
    """
    values: dict[str, Any] = {}
    if path is not None:
        try:
            values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise PipelineError("job.unreadable", path=path, reason=error) from error
    values |= {name: value for name, value in options.items() if value not in (None, [])}
    try:
        return kind(**values)
    except ValidationError as error:
        lines = [
            f"  {'.'.join(map(str, problem['loc'])) or 'job'}: {problem['msg'].removeprefix('Value error, ')}"
            + (f" (got {problem['input']!r})" if problem["loc"] and problem["type"] != "missing" else "")
            for problem in error.errors(include_url=False)
        ]
        raise PipelineError("job.invalid", problems="\n".join(lines)) from None


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

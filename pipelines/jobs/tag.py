"""The job of `spanmarker tag`."""

from typing import Any, Literal

from pydantic import (
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from pipelines.jobs.base import CorpusJob
from pipelines.jobs.reject_limit import MaxRejects
from pipelines.output.layout import TAG_TABLES
from pipelines.storage import absolute
from pipelines.task import TagTask
from spanmarker_core.bundle.config import decoder_of, describe_gate, gate_threshold
from spanmarker_core.bundle.reader import BundleInfo


class TagJob(CorpusJob):
    """One `spanmarker tag`: everything that decides what is read, what is done and where it goes."""

    verb = "tag"

    samples: str | None = Field(
        None, validate_default=True, description="folder of a `spanmarker prepare`, in place of input"
    )
    decoder: str | None = Field(None, description="flat.v1, nested.v1 or all.v1; else as the bundle says")
    threshold: float | None = Field(None, ge=0, le=1, description="least score of a row; else as the bundle says")
    gate: Literal["auto", "on", "off"] = Field(
        "auto", description="score only spans that the model's gate lets pass: as the model was trained, always, never"
    )
    device: str = Field("cpu", description="cpu, cuda, cuda:1, … or auto")
    dtype: Literal["float32", "bfloat16", "int8"] = Field("float32", description="number format of the model")
    max_rejects: str | None = Field(None, description="rejected documents past which a run fails: a number, or 1%")

    @field_validator("max_rejects", mode="before")
    @classmethod
    def _limit(cls, value: Any) -> Any:
        """Take a job file's number, too."""
        return MaxRejects.parse(str(value)).text if isinstance(value, int | str) else value

    @field_validator("samples")
    @classmethod
    def _one_source(cls, value: str | None, info: ValidationInfo) -> str | None:
        if "input" in info.data and bool(info.data["input"]) == bool(value):
            raise ValueError("name either input or samples")
        return value

    @model_validator(mode="after")
    def _cut_before(self) -> "TagJob":
        if self.samples and "max_shard_bytes" in self.model_fields_set:
            raise ValueError("max_shard_bytes was settled by the `spanmarker prepare` that made the samples")
        return self

    def identity(self, info: BundleInfo) -> dict[str, str]:
        """Return everything but the inputs that decides the rows; the same for samples and for their documents.

        Raises:
            CoreError: `call.no_gate`, `call.flat_tags`.
        """
        threshold = info.config.threshold if self.threshold is None else self.threshold
        return {
            **super().identity(info),
            "decoder": decoder_of(info.config, self.decoder),
            "threshold": str(threshold),
            "gate": describe_gate(gate_threshold(info.config, self.gate, info.path)),
            "dtype": self.dtype,
            **{f"schema.{table.name}": str(table.version) for table in TAG_TABLES},
        }

    def task(self, info: BundleInfo, digest: str, samples_job: str = "") -> TagTask:
        """Return what a shard task needs of the job.

        Args:
            info: the model.
            digest: of the identity.
            samples_job: digest of the identity of the job that made the samples, if any.
        """
        return TagTask(
            **self._task_values(info, digest),
            device=self.device,
            dtype=self.dtype,
            decoder=self.decoder or info.config.decoder,
            threshold=self.threshold,
            gate=self.gate,
            samples=absolute(self.samples) if self.samples else "",
            samples_job=samples_job,
        )

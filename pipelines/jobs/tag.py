"""Job model of `spanmarker tag`."""

from typing import Literal

from pydantic import (
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from pipelines.jobs.base import CorpusJob
from pipelines.output.layout import TAG_TABLES
from pipelines.storage import absolute
from pipelines.task import TagTask
from spanmarker_core.bundle.config import decoder_of, describe_gate, gate_threshold
from spanmarker_core.bundle.reader import BundleInfo


class TagJob(CorpusJob):
    """The job of `spanmarker tag`."""

    verb = "tag"

    samples: str | None = Field(
        None, validate_default=True, description="Output folder of `spanmarker prepare`, to tag instead of --input."
    )
    decoder: str | None = Field(None, description="flat.v1, nested.v1 or all.v1.  [default: as stored in the model]")
    threshold: float | None = Field(
        None, ge=0, le=1, description="Minimum score of a row, 0 to 1.  [default: as stored in the model]"
    )
    gate: Literal["auto", "on", "off"] = Field(
        "auto",
        description="auto, on or off: score only spans that pass the model's gate. off is exact; on also uses a gate "
        "that was fitted after training.  [default: auto, as the model was trained]",
    )
    device: str = Field("cpu", description="cpu, cuda, cuda:1 or auto.")
    dtype: Literal["float32", "bfloat16", "int8"] = Field(
        "float32", description="float32; bfloat16 or int8, which change scores."
    )

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
        if self.samples and self.format:
            raise ValueError("format is for inputs, and samples are read as they were prepared")
        return self

    def identity(self, info: BundleInfo) -> dict[str, str]:
        """Return the job identity: everything except the inputs that determines the rows.

        It is the same for samples and for the documents that they were made from.

        Args:
            info: metadata of the model bundle.

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
        """Return the shard task of the job.

        Args:
            info: metadata of the model bundle.
            digest: digest of the job identity.
            samples_job: digest of the identity of the job that made the samples; "" without samples.
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

"""Job model of `spanmarker tag`."""

from typing import Any, Literal

import pyarrow as pa
from pydantic import (
    Field,
    ValidationInfo,
    field_validator,
)

from pipelines.jobs.base import CorpusJob
from pipelines.output.layout import tag_tables
from pipelines.snapshots.snapshots import Snapshots, TableFormat
from pipelines.storage import absolute
from pipelines.task import TagTask, WriteSentences
from schemas import ANNOTATIONS, DOCUMENTS
from spanmarker_core.bundle.config import decoder_of, describe_gate, gate_threshold
from spanmarker_core.bundle.reader import BundleInfo


class TagJob(CorpusJob):
    """The job of `spanmarker tag`."""

    verb = "tag"

    samples: str | None = Field(
        None, validate_default=True, description="Output folder of `spanmarker prepare`, to tag instead of --input."
    )
    keep_columns_in: Literal["documents", "annotations"] = Field(
        "documents", description="documents, or annotations: the kept columns are in both tables."
    )
    write_sentences: WriteSentences = Field(
        "none",
        description="offsets, also without a value, or text: write the table sentences, with offsets or also with the "
        "texts of the sentences.",
    )
    commit: TableFormat | None = Field(
        None, description="delta or iceberg: after the run, publish its files as a snapshot of tables of this format."
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
    examples: bool = Field(
        True,
        description="Show example sentences and frequent entity texts in the report; --no-examples keeps texts out of "
        "it.",
    )

    @field_validator("write_sentences", mode="before")
    @classmethod
    def _switched(cls, value: Any) -> Any:
        """Accept true and false from a job file."""
        return ("offsets" if value else "none") if isinstance(value, bool) else value

    @field_validator("samples")
    @classmethod
    def _one_source(cls, value: str | None, info: ValidationInfo) -> str | None:
        if "input" in info.data and bool(info.data["input"]) == bool(value):
            given = "both are given" if value else "neither is given"
            raise ValueError(f"pass either --input or --samples; {given}")
        return value

    def conflicts(self) -> list[str]:
        """Return a description of each combination of settings that is not possible."""
        problems = super().conflicts()
        if self.samples and "max_shard_bytes" in self.model_fields_set:
            problems.append("max_shard_bytes was set by the `spanmarker prepare` run that wrote the samples")
        if self.samples and self.keep_columns:
            problems.append("keep_columns was set by the `spanmarker prepare` run that wrote the samples")
        if self.samples and self.format:
            problems.append("format applies to inputs only, and samples are read in their own format")
        if self.keep_columns_in == "annotations" and not (self.keep_columns or self.samples):
            problems.append("keep_columns_in requires keep_columns")
        return problems

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
            **({"keep_columns_in": self.keep_columns_in} if self.keep_columns_in != "documents" else {}),
            **({"write_sentences": self.write_sentences} if self.write_sentences != "none" else {}),
            **{f"schema.{table.name}": str(table.version) for table in tag_tables(self.write_sentences)},
        }

    def snapshots(self, identity: dict[str, str], kept: pa.Schema) -> Snapshots | None:
        """Return the tables that the run commits to; None without `commit`.

        Args:
            identity: identity of the job, with its kept columns.
            kept: the kept columns.

        Raises:
            PipelineError: `snapshot.no_library`, `snapshot.no_store`, `snapshot.no_catalogue`, `snapshot.bad_columns`.
        """
        if self.commit is None:
            return None
        keeping = {DOCUMENTS.name, ANNOTATIONS.name if self.keep_columns_in == "annotations" else DOCUMENTS.name}
        tables = {table.name: table for table in tag_tables(self.write_sentences)}
        schemas = {name: table.extended(kept if name in keeping else []).schema for name, table in tables.items()}
        return Snapshots(absolute(self.output), self.commit, schemas, identity)

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
            keep_in_annotations=self.keep_columns_in == "annotations",
            write_sentences=self.write_sentences,
        )

"""Job model of `spanmarker tag`."""

from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import (
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError

from pipelines.jobs.base import CorpusJob
from pipelines.jobs.problems import not_one_of
from pipelines.jobs.shared import Device
from pipelines.jobs.thresholds import described, for_model, known_label, parsed
from pipelines.output.layout import tag_tables
from pipelines.snapshots.snapshots import Snapshots, TableFormat
from pipelines.storage import absolute
from pipelines.task import TagTask, WriteSentences
from schemas import ANNOTATIONS, DOCUMENTS
from spanmarker_core.bundle.config import decoder_of, describe_gate, gate_threshold
from spanmarker_core.bundle.reader import BundleInfo
from spanmarker_core.shown import Panel, Shown
from spanmarker_core.spans.decoding import DECODERS
from spanmarker_core.text.versions import versioned

Threshold = Annotated[float | list[str] | None, BeforeValidator(parsed)]


class TagJob(CorpusJob):
    """The job of `spanmarker tag`."""

    verb = "tag"

    samples: Annotated[str | None, Shown(Panel.FILES, "FOLDER")] = Field(
        None, validate_default=True, description="Output folder of `spanmarker prepare`, to tag instead of --input."
    )
    keep_columns_in: Annotated[Literal["documents", "annotations"], Shown(Panel.FILES)] = Field(
        "documents", description="Tables that get the kept columns: documents alone, or annotations as well."
    )
    write_sentences: Annotated[WriteSentences, Shown(Panel.FILES)] = Field(
        "none",
        description="Also write the table sentences: offsets, or text for offsets and texts. Without a value: offsets.",
    )
    commit: Annotated[TableFormat | None, Shown(Panel.FILES)] = Field(
        None, description="Format of tables, delta or iceberg: after the run, publish its files as a snapshot."
    )
    decoder: Annotated[str | None, Shown(Panel.MODEL, "NAME")] = Field(
        None, description="flat.v1, nested.v1 or all.v1.  [default: as stored in the model]"
    )
    threshold: Annotated[Threshold, Shown(Panel.MODEL, "[LABEL=]SCORE")] = Field(
        None,
        description="Minimum score of a row, 0 to 1, or LABEL=SCORE for one label. Can be repeated.  [default: as "
        "stored in the model]",
    )
    labels: Annotated[list[str], Shown(Panel.MODEL, "LABELS")] = Field(
        [], description="Write only entities with these labels, such as PER,ORG. Can be repeated.  [default: all]"
    )
    limit: Annotated[int | None, Shown(Panel.FILES, "N")] = Field(
        None, ge=1, description="Tag only the first N documents, in the order of reading.  [default: all]"
    )
    gate: Annotated[Literal["auto", "on", "off"], Shown(Panel.MODEL)] = Field(
        "auto",
        description="auto, on or off: score only spans that pass the model's gate. off is exact; on also uses a gate "
        "that was fitted after training.  [default: auto, as the model was trained]",
    )
    device: Device = "cpu"
    dtype: Annotated[Literal["float32", "bfloat16", "int8"], Shown(Panel.SPEED)] = Field(
        "float32", description="float32; bfloat16 or int8, which change scores."
    )
    examples: Annotated[bool, Shown(Panel.FILES)] = Field(
        True,
        description="Show example sentences and frequent entity texts in the report; --no-examples keeps texts out of "
        "it.",
    )

    @field_validator("write_sentences", mode="before")
    @classmethod
    def _switched(cls, value: Any) -> Any:
        """Accept true and false from a job file."""
        return ("offsets" if value else "none") if isinstance(value, bool) else value

    @field_validator("labels", mode="before")
    @classmethod
    def _separated_labels(cls, value: Any) -> Any:
        given = [value] if isinstance(value, str) else value
        if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
            return given
        labels = sorted({label.strip() for each in given for label in each.split(",")})
        if "" in labels:
            raise ValueError("a label is empty; separate labels by single commas, as in PER,ORG")
        return labels

    @field_validator("decoder")
    @classmethod
    def _known_decoder(cls, value: str | None) -> str | None:
        if value is None or (found := versioned(value, DECODERS)) in DECODERS:
            return value and found
        raise ValueError(not_one_of(value, DECODERS))

    @field_validator("samples")
    @classmethod
    def _one_source(cls, value: str | None, info: ValidationInfo) -> str | None:
        """Require documents or samples."""
        if "input" in info.data and bool(info.data["input"]) == bool(value):
            if value:
                raise PydanticCustomError("not_both", "it replaces --input, so pass one of the two")
            raise PydanticCustomError("no_input", "--input is missing: files or folders to tag, such as docs/")
        return value

    def conflicts(self) -> list[str]:
        """Return a description of each combination of settings that is not possible."""
        problems = super().conflicts()
        if self.samples and "max_shard_bytes" in self.model_fields_set:
            problems.append("--max-shard-bytes was chosen when the samples were prepared: remove it")
        if self.samples and self.keep_columns:
            problems.append("--keep-columns was chosen when the samples were prepared: remove it")
        if self.samples and self.format:
            problems.append("--format applies to --input, and samples have a format of their own: remove it")
        if self.samples and self.limit:
            problems.append("--limit applies to --input, not to --samples: remove it")
        if self.keep_columns_in == "annotations" and not (self.keep_columns or self.samples):
            problems.append("--keep-columns-in annotations needs --keep-columns, the columns to keep")
        return problems

    def identity(self, info: BundleInfo) -> dict[str, str]:
        """Return the job identity: everything except the inputs that determines the rows.

        It is the same for samples and for the documents that they were made from.

        Args:
            info: metadata of the model bundle.

        Raises:
            CoreError: `call.no_gate`, `call.flat_tags`.
            PipelineError: `job.unknown_label`.
        """
        labels = [known_label(label, info.config, "--labels") for label in self.labels]
        for_model(self.threshold, info.config)
        return {
            **super().identity(info),
            "decoder": decoder_of(info.config, self.decoder),
            "threshold": described(self.threshold, info.config),
            **({"labels": ",".join(labels)} if labels else {}),
            **({} if self.limit is None else {"limit": str(self.limit)}),
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
            decoder=decoder_of(info.config, self.decoder),
            threshold=for_model(self.threshold, info.config),
            labels=tuple(self.labels),
            gate=self.gate,
            samples=absolute(self.samples) if self.samples else "",
            samples_job=samples_job,
            keep_in_annotations=self.keep_columns_in == "annotations",
            write_sentences=self.write_sentences,
        )

"""Planned work of `spanmarker prepare --annotated`.

OUT/annotated_samples/, documents/, rejects/, gold_problems/   see `pipelines.shards.annotated`
OUT/tokenizer.json    the encoder's tokenizer, the only part of the encoder that workers need
OUT/summary.json      contents of the data, and annotations that cannot be learned
"""

import json
from collections.abc import Iterator

from pipelines.jobs.base import ShardJob
from pipelines.jobs.prepare_training import AnnotatedJob
from pipelines.output.digest_set import DigestSet
from pipelines.output.layout import TRAINING_TABLES
from pipelines.output.manifest import read_entries
from pipelines.planning.annotated import plan_annotated
from pipelines.runs.job_shard_sizes import shard_sizes
from pipelines.storage import join, publish_bytes
from pipelines.task import AnnotatedTask
from pipelines.training_data.packing import packing_identity, tokenizer_digest, tokenizer_path
from pipelines.training_data.summary import AlignmentSummary
from schemas.shards import Shard
from spanmarker_core.text.tag_schemes import scheme_called
from spanmarker_core.windows.packer import Packer


class PlannedTrainingData:
    """Planned work on annotated data; implements `pipelines.runs.planned_job.PlannedJob`.

    Args:
        job: the job.
    """

    def __init__(self, job: AnnotatedJob) -> None:
        self.job: ShardJob = job
        self._job, self._context = job, job.shown
        self._packer = _read_packer(job)
        # One identity for all aliases of a scheme
        self._scheme = scheme_called(job.scheme) if job.scheme is not None else None
        columns = {"token_column": job.token_column, "tag_column": job.tag_column}
        self.identity = {
            **packing_identity(self._packer, self._context),
            **job.read_values(),
            "scheme": str(self._scheme),
            # Left out if not given, as in outputs of versions without these options
            **{name: str(value) for name, value in columns.items() if value is not None},
            **{f"schema.{table.name}": str(table.version) for table in TRAINING_TABLES},
        }

    def begin(self, output: str) -> None:
        """Write the tokenizer for the workers.

        Args:
            output: the output folder.
        """
        publish_bytes(tokenizer_path(output), self._packer.tokenizer.to_str().encode())

    def shards(self, output: str, digest: str) -> Iterator[Shard]:
        """Yield the planned shards.

        Args:
            output: the output folder.
            digest: digest of the job identity.
        """
        job = self._job
        return plan_annotated(
            job.input,
            output=output,
            columns=job.columns,
            scheme=self._scheme,
            shard_sizes=shard_sizes(job, output, self.identity),
            job_digest=digest,
            max_bytes=int(job.worker_memory),
        )

    def task(self, digest: str) -> AnnotatedTask:
        """Return the shard task.

        Args:
            digest: digest of the job identity.
        """
        packer = self._packer
        return AnnotatedTask(
            **self._job.task_values(digest),
            model="",
            model_digest=tokenizer_digest(packer.tokenizer),
            prefix=tuple(packer.prefix.tolist()),
            suffix=tuple(packer.suffix.tolist()),
            unknown_id=packer.unknown_id,
            max_tokens=packer.max_tokens,
            entity_max_length=packer.entity_max_length,
            splitter=packer.splitter,
            context=self._context,
            scheme=self._scheme,
            token_column=self._job.token_column,
            tag_column=self._job.tag_column,
        )

    def end(self, output: str, planned: DigestSet) -> None:
        """Write summary.json.

        Args:
            output: the output folder.
            planned: names of the planned shards.
        """
        values = AlignmentSummary.over(read_entries(output, planned)).to_json()
        publish_bytes(join(output, "summary.json"), json.dumps(values, indent=1, ensure_ascii=False).encode() + b"\n")


def _read_packer(job: AnnotatedJob) -> Packer:
    """Return the packer that a model trained on the job's encoder will use."""
    # Imported late, because it imports torch, which workers do not need.
    from spanmarker_core.training.initialise import encoder_packer

    return encoder_packer(job.encoder, job)

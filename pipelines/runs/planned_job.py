"""Planned jobs over shards: for each kind of job its shards, its task, and the other files of its output."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

from pipelines.jobs.base import CorpusJob, ShardJob
from pipelines.jobs.prepare_training import AnnotatedJob
from pipelines.jobs.tag import TagJob
from pipelines.output.digest_set import DigestSet
from pipelines.output.job_identity import owner_identity
from pipelines.planning.documents import plan_shards
from pipelines.planning.kept import kept_identity, with_kept
from pipelines.planning.limit import first_shards
from pipelines.runs.planned_training_data import PlannedTrainingData
from pipelines.runs.prepared_samples import PreparedSamples, find_prepared_samples
from pipelines.storage import absolute
from pipelines.task import Columns, Task
from schemas.shards import Shard
from spanmarker_core.bundle.reader import BundleInfo, read_info


class PlannedJob(Protocol):
    """The planned work of a job. Jobs without files of their own inherit `begin` and `end`, which write none.

    Attributes:
        job: the resolved job.
        identity: the job identity: everything except the inputs that determines the output.
    """

    job: ShardJob
    identity: dict[str, str]

    def begin(self, output: str) -> None:
        """Write the files that the tasks need. The caller holds the lock of the output.

        Args:
            output: the output folder.
        """
        return

    def shards(self, output: str, digest: str) -> Iterator[Shard]:
        """Yield the planned shards.

        Args:
            output: the output folder.
            digest: digest of the job identity.
        """

    def task(self, digest: str) -> Task:
        """Return the shard task.

        Args:
            digest: digest of the job identity.
        """

    def end(self, output: str, planned: DigestSet) -> None:
        """Write the files that summarise all planned shards, which are done. The caller holds the lock of the output.

        Args:
            output: the output folder.
            planned: names of the planned shards.
        """
        return


def plan_job(job: ShardJob) -> PlannedJob:
    """Return the planned work of a job.

    Args:
        job: the job.

    Raises:
        CodedError: an error of the model (`bundle.*`), of the encoder or of the samples (`samples.*`) that the job
            names.
    """
    if isinstance(job, AnnotatedJob):
        return PlannedTrainingData(job)
    assert isinstance(job, CorpusJob)
    info = read_info(job.model_path)
    if isinstance(job, TagJob) and job.samples:
        return _PlannedSamples(find_prepared_samples(job, info), info)
    return _PlannedCorpus(job, info)


class _PlannedCorpus(PlannedJob):
    """Planned work on documents, for tagging or preparation."""

    def __init__(self, job: CorpusJob, info: BundleInfo) -> None:
        self.job: ShardJob = job
        self._job, self._info = job, info
        self._columns = self._read_columns()
        self.identity = {**job.identity(info), **kept_identity(self._columns)}

    def _read_columns(self) -> Columns:
        job, output = self._job, absolute(self._job.output)
        fixed = owner_identity(output) if job.keep_columns and not job.force else None
        limit = int(job.worker_memory)
        return with_kept(job.columns, job.keep_columns, job.input, job.format, output, fixed or {}, limit)

    def shards(self, output: str, digest: str) -> Iterator[Shard]:
        limit = int(self.job.worker_memory)
        shards = plan_shards(
            self.job.input,
            self._job.format,
            output=output,
            columns=self._columns,
            max_shard_bytes=self.job.max_shard_bytes,
            job_digest=digest,
            max_bytes=limit,
        )
        if isinstance(self._job, TagJob) and self._job.limit is not None:
            return first_shards(shards, self._job.limit, self._columns, digest, limit)
        return shards

    def task(self, digest: str) -> Task:
        return replace(self._job.task(self._info, digest), columns=self._columns)


class _PlannedSamples(_PlannedCorpus):
    """Planned work on samples, for tagging."""

    def __init__(self, samples: PreparedSamples, info: BundleInfo) -> None:
        self._samples = samples
        super().__init__(samples.tagging, info)
        self.identity = {**samples.tagging.identity(info), **samples.kept_identity}

    def _read_columns(self) -> Columns:
        return self._samples.columns

    def shards(self, output: str, digest: str) -> Iterator[Shard]:
        return self._samples.shards(digest)

    def task(self, digest: str) -> Task:
        return replace(self._samples.task(self._info, digest), columns=self._columns)

"""The kinds of jobs over shards: for each, which shards there are, what a task is told, what else is in the output."""

from collections.abc import Iterator
from typing import Protocol

from pipelines.jobs.base import CorpusJob, ShardJob
from pipelines.jobs.prepare_training import AnnotatedJob
from pipelines.jobs.tag import TagJob
from pipelines.output.digest_set import DigestSet
from pipelines.planning.documents import plan_shards
from pipelines.runs.planned_training_data import PlannedTrainingData
from pipelines.runs.prepared_samples import PreparedSamples, find_prepared_samples
from pipelines.task import Task
from schemas.shards import Shard
from spanmarker_core.bundle.reader import BundleInfo, read_info


class PlannedJob(Protocol):
    """What a job comes to.

    Attributes:
        job: the job, as it is resolved.
        identity: everything but the inputs that decides what is written.
    """

    job: ShardJob
    identity: dict[str, str]

    def begin(self, output: str) -> None:
        """Write what the tasks need. The output's lock is held."""

    def shards(self, output: str, digest: str) -> Iterator[Shard]:
        """Yield the plan; `digest` is that of the identity."""

    def task(self, digest: str) -> Task:
        """Return what a shard task needs of the job."""

    def end(self, output: str, planned: DigestSet) -> None:
        """Write what is told of the planned shards together, which are done. The output's lock is held."""


def plan_job(job: ShardJob) -> PlannedJob:
    """Return what a job comes to.

    Raises:
        CodedError: what is wrong with the model, the encoder or the samples that it names.
    """
    if isinstance(job, AnnotatedJob):
        return PlannedTrainingData(job)
    assert isinstance(job, CorpusJob)
    info = read_info(job.model_path)
    if isinstance(job, TagJob) and job.samples:
        return _PlannedSamples(find_prepared_samples(job, info), info)
    return _PlannedCorpus(job, info)


class _PlannedCorpus:
    """Documents that are to be tagged or prepared for it."""

    def __init__(self, job: CorpusJob, info: BundleInfo) -> None:
        self.job: ShardJob = job
        self._job, self._info = job, info
        self.identity = job.identity(info)

    def begin(self, output: str) -> None:
        """Nothing."""

    def shards(self, output: str, digest: str) -> Iterator[Shard]:
        return plan_shards(
            self.job.input,
            output=output,
            id_column=self.job.id_column,
            text_column=self.job.text_column,
            max_shard_bytes=self.job.max_shard_bytes,
            job=digest,
            max_bytes=int(self.job.worker_memory),
        )

    def task(self, digest: str) -> Task:
        return self._job.task(self._info, digest)

    def end(self, output: str, planned: DigestSet) -> None:
        """Nothing: the report tells all."""


class _PlannedSamples(_PlannedCorpus):
    """Samples that are to be tagged."""

    def __init__(self, samples: PreparedSamples, info: BundleInfo) -> None:
        super().__init__(samples.tagging, info)
        self._samples = samples

    def shards(self, output: str, digest: str) -> Iterator[Shard]:
        return self._samples.shards(digest)

    def task(self, digest: str) -> Task:
        return self._samples.task(self._info, digest)

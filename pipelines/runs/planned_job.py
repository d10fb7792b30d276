"""The kinds of jobs over shards: for each, which shards there are, what a task is told, what else is in the output."""

from collections.abc import Iterator
from typing import Protocol

from pipelines.jobs.base import CorpusJob, ShardJob
from pipelines.jobs.prepare_training import AnnotatedJob
from pipelines.jobs.tag import TagJob
from pipelines.output.digest_set import NameSet
from pipelines.planning.documents import plan_shards
from pipelines.runs.planned_training_data import AnnotatedWork
from pipelines.runs.prepared_samples import Samples, find_samples
from pipelines.task import Task
from schemas.shards import Shard
from spanmarker_core.bundle.reader import BundleInfo, read_info


class JobWork(Protocol):
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

    def end(self, output: str, planned: NameSet) -> None:
        """Write what is told of the planned shards together, which are done. The output's lock is held."""


def work_of(job: ShardJob) -> JobWork:
    """Return what a job comes to.

    Raises:
        CodedError: what is wrong with the model, the encoder or the samples that it names.
    """
    if isinstance(job, AnnotatedJob):
        return AnnotatedWork(job)
    assert isinstance(job, CorpusJob)
    info = read_info(job.model_path)
    if isinstance(job, TagJob) and job.samples:
        return _SamplesWork(find_samples(job, info), info)
    return _CorpusWork(job, info)


class _CorpusWork:
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

    def end(self, output: str, planned: NameSet) -> None:
        """Nothing: the report tells all."""


class _SamplesWork(_CorpusWork):
    """Samples that are to be tagged."""

    def __init__(self, samples: Samples, info: BundleInfo) -> None:
        super().__init__(samples.tagging, info)
        self._samples = samples

    def shards(self, output: str, digest: str) -> Iterator[Shard]:
        return self._samples.shards(digest)

    def task(self, digest: str) -> Task:
        return self._samples.task(self._info, digest)

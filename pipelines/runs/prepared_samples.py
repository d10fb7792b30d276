"""The output folder of a `spanmarker prepare`, as `spanmarker tag --samples` finds it."""

from collections.abc import Iterator
from dataclasses import dataclass

from pipelines.errors import PipelineError
from pipelines.jobs.prepare import PrepareJob
from pipelines.jobs.tag import TagJob
from pipelines.output.digest_set import DigestSet
from pipelines.output.layout import SAMPLE_TABLES, tables_of
from pipelines.output.manifest import find_done, identity_digest, plan_path, planned
from pipelines.output.plan_file import plan_identity
from pipelines.planning.documents import renamed
from pipelines.storage import absolute, exists
from pipelines.task import TagTask
from schemas.shards import Shard
from spanmarker_core.bundle.reader import BundleInfo

#: What is taken from the samples, unless the tagging job says otherwise, which is then refused.
_SETTLED = ("id_column", "text_column", "language")


@dataclass(frozen=True, slots=True)
class PreparedSamples:
    """A folder of samples that are ready to be tagged.

    Attributes:
        folder: output of a `spanmarker prepare`.
        job: digest of its identity.
        tagging: the job that tags them, with what they have settled.
    """

    folder: str
    job: str
    tagging: TagJob

    def shards(self, digest: str) -> Iterator[Shard]:
        """Yield the prepared shards as the job with this digest names them."""
        return (renamed(shard, digest) for shard in planned(self.folder))

    def task(self, info: BundleInfo, digest: str) -> TagTask:
        """Return what a shard task needs of the tagging job; as `CorpusJob.task`."""
        return self.tagging.task(info, digest, self.job)


def find_prepared_samples(job: TagJob, info: BundleInfo) -> PreparedSamples:
    """Return the samples of a job that has `samples`, after a check that they are what it needs and all there.

    Raises:
        PipelineError: `samples.not_prepared`, `samples.other_job` with what differs, `samples.not_ready`, and those
            of reading a plan and a manifest.
    """
    folder = absolute(job.samples or "")
    there = plan_identity(plan_path(folder)) if exists(plan_path(folder)) else {}
    if tables_of(there) != SAMPLE_TABLES:
        raise PipelineError("samples.not_prepared", path=folder)
    settled = {name: there[name] for name in _SETTLED if name not in job.model_fields_set}
    tagging = job.model_copy(update=settled)
    here = PrepareJob(input=["-"], output=job.output, **{name: getattr(tagging, name) for name in _SETTLED}).identity(
        info
    )
    if differing := sorted(key for key in there.keys() | here.keys() if there.get(key) != here.get(key)):
        lines = [f"  {key}: there {there.get(key)!r}, here {here.get(key)!r}" for key in differing]
        raise PipelineError("samples.other_job", path=folder, differences="\n".join(lines))
    names = DigestSet.of(shard.name for shard in planned(folder))
    if left := len(names - find_done(folder).done):
        raise PipelineError("samples.not_ready", path=folder, left=left, total=len(names))
    return PreparedSamples(folder, identity_digest(there), tagging)

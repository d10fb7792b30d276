"""The output folder of `spanmarker prepare` as input of `spanmarker tag --samples`."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from pipelines.errors import PipelineError
from pipelines.jobs.prepare import PrepareJob
from pipelines.jobs.tag import TagJob
from pipelines.output.digest_set import DigestSet
from pipelines.output.job_identity import identity_differences
from pipelines.output.layout import SAMPLE_TABLES, table_path, tables_of
from pipelines.output.manifest import find_done, identity_digest, plan_path, planned
from pipelines.output.plan_file import plan_identity
from pipelines.planning.files import renamed
from pipelines.planning.kept import IDENTITY
from pipelines.stages.kept_columns import KEPT
from pipelines.storage import absolute, exists, open_input
from pipelines.task import Columns, TagTask
from schemas import PREPARED
from schemas.shards import Shard
from spanmarker_core.bundle.reader import BundleInfo

#: Settings that the tagging job inherits from the samples; other values in the job are rejected.
_SETTLED = ("id_column", "text_column", "language", "language_column", "sentence_breaks")
#: Versions of PREPARED that are read.
_READABLE = ("1", str(PREPARED.version))


@dataclass(frozen=True, slots=True)
class PreparedSamples:
    """A folder of samples that are ready for tagging.

    Attributes:
        folder: output folder of `spanmarker prepare`.
        job: digest of the identity of the job that made the samples.
        tagging: the tagging job, with the settings inherited from the samples.
        columns: the columns that were read and kept.
        kept_identity: the part of the job identity that the kept columns determine.
    """

    folder: str
    job: str
    tagging: TagJob
    columns: Columns
    kept_identity: dict[str, str]

    def shards(self, digest: str) -> Iterator[Shard]:
        """Yield the prepared shards under their names in the tagging job.

        Args:
            digest: digest of the identity of the tagging job.
        """
        return (renamed(shard, digest) for shard in planned(self.folder))

    def task(self, info: BundleInfo, digest: str) -> TagTask:
        """Return the shard task of the tagging job.

        Args:
            info: metadata of the model bundle.
            digest: digest of the identity of the tagging job.
        """
        return self.tagging.task(info, digest, self.job)


def find_prepared_samples(job: TagJob, info: BundleInfo) -> PreparedSamples:
    """Return the samples of a tagging job, after verifying that they are complete and fit the job.

    Args:
        job: a job with `samples`.
        info: metadata of the model bundle.

    Raises:
        PipelineError: `samples.not_prepared`; `samples.other_job`, with the differences; `samples.not_ready`;
            `samples.damaged`; or an error in reading the plan or the manifest.
    """
    folder = absolute(job.samples or "")
    there = plan_identity(plan_path(folder)) if exists(plan_path(folder)) else {}
    if tables_of(there) != SAMPLE_TABLES:
        raise PipelineError("samples.not_prepared", path=folder)
    settled: dict[str, str | None] = {
        name: there[name] for name in _SETTLED if name in there and name not in job.model_fields_set
    }
    if "id_column" in settled and Columns.of_identity(there).make_ids:
        settled["id_column"] = None
    kept = {key: value for key, value in there.items() if key.startswith(IDENTITY)}
    tagging = job.model_copy(update=settled)
    here = PrepareJob(input=["-"], output=job.output, **{name: getattr(tagging, name) for name in _SETTLED}).identity(
        info
    )
    version = f"schema.{PREPARED.name}"
    if there[version] in _READABLE:
        here[version] = there[version]
    if lines := identity_differences(there, {**here, **kept}):
        raise PipelineError("samples.other_job", path=folder, differences="\n".join(lines))
    names = DigestSet.of(shard.name for shard in planned(folder))
    if left := len(names - find_done(folder).done):
        raise PipelineError("samples.not_ready", path=folder, left=left, total=len(names))
    columns = _with_kept(tagging.columns, folder) if kept else tagging.columns
    return PreparedSamples(folder, identity_digest(there), tagging, columns, kept)


def _with_kept(columns: Columns, folder: str) -> Columns:
    """Return columns with those that samples carry, whose types every file of inputs has."""
    shard = next(planned(folder))
    path = table_path(folder, PREPARED.name, shard.name)
    try:
        with open_input(path) as file:
            struct = pa.ipc.open_file(file).schema.field(KEPT).type
    except (pa.ArrowException, OSError, KeyError) as error:
        raise PipelineError("samples.damaged", path=path, reason=error) from error
    return replace(columns, keep=tuple(field.name for field in struct), kept=pa.schema(list(struct)))

"""The sizes of the shards of a job."""

from pipelines.jobs.base import ShardJob
from pipelines.planning.shard_sizes import CLUSTER_WORKERS, ShardSizes, earlier_sizes


def shard_sizes(job: ShardJob, output: str, identity: dict[str, str]) -> ShardSizes:
    """Return the sizes at which the inputs of a job are cut.

    Args:
        job: the job.
        output: the output folder, whose lock the caller holds.
        identity: identity of the job.

    Raises:
        PipelineError: `output.not_readable`.
    """
    if job.max_shard_bytes is not None:
        return ShardSizes(job.max_shard_bytes)
    earlier = None if job.force else earlier_sizes(output, identity)
    return ShardSizes(None, job.cluster_workers or CLUSTER_WORKERS, earlier)

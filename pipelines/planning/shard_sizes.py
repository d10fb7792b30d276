"""The size at which each input is cut into shards.

Small inputs are cut into small shards: then all workers have work, and an interruption loses little. The size must stay
the same for a file as long as its rows are in an output, since other cuts are other shards, which would be tagged
again. It is therefore recorded with each shard of a plan, and a later plan of the same job keeps it, whatever inputs
have been added and however many workers there are. An output of an earlier version keeps the size of that version.
"""

import itertools
from collections.abc import Iterable, Iterator

from pipelines.errors import PipelineError
from pipelines.output.digest_set import DigestSet, Sizes
from pipelines.output.manifest import committed_names, has_entries, identity_digest, plan_path, read_entries
from pipelines.output.plan_file import plan_identity, read_plan
from pipelines.storage import exists

#: Sizes of shards in bytes, unless the user sets one.
MIN_SHARD_BYTES, MAX_SHARD_BYTES = 128 << 10, 4 << 20
#: Shards per worker that small inputs are cut into.
SHARDS_PER_WORKER = 8
#: Number of workers that a cluster is taken to have.
CLUSTER_WORKERS = 16


class ShardSizes:
    """Sizes of shards by file, or by folder for text files.

    Args:
        given: the size that the user has set for all inputs, in bytes; None to choose it.
        workers: number of workers.
        earlier: sizes of the earlier plan of the same job; None if there is none, or nothing of it was done.
    """

    def __init__(self, given: int | None, workers: int = 1, earlier: Sizes | None = None) -> None:
        self._given, self._workers, self._earlier = given, workers, earlier
        self._chosen = MAX_SHARD_BYTES

    @property
    def need_total(self) -> bool:
        """Whether `choose` must be called before `of`."""
        return self._given is None

    def choose(self, sizes: Iterable[int]) -> None:
        """Choose the size for inputs that the earlier plan does not have. Large inputs are not listed to their end.

        Args:
            sizes: size of each file in bytes.
        """
        shards, total = self._workers * SHARDS_PER_WORKER, 0
        for size in sizes:
            total += size
            if total >= MAX_SHARD_BYTES * shards:
                break
        # A power of two, so that inputs of about the same size are cut in the same places.
        self._chosen = MIN_SHARD_BYTES
        while 2 * self._chosen <= min(total // shards, MAX_SHARD_BYTES):
            self._chosen *= 2

    def of(self, source: str) -> int:
        """Return the size at which a file or folder is cut, in bytes.

        Args:
            source: the file or folder, as in `Shard.source`.
        """
        if self._given is not None:
            return self._given
        earlier = self._earlier.get(source) if self._earlier is not None else None
        return self._chosen if earlier is None else earlier or MAX_SHARD_BYTES


def earlier_sizes(output: str, identity: dict[str, str]) -> Sizes | None:
    """Return the sizes of the shards of an output: those of its plan, and finished ones of inputs that this lacks.

    None if the plan is of another job, or nothing of it was done.

    Args:
        output: the output folder, whose lock the caller holds.
        identity: identity of the job.

    Raises:
        PipelineError: `output.not_readable`.
    """
    path = plan_path(output)
    if not exists(path) or not has_entries(output):
        return None
    try:
        if plan_identity(path) != identity:
            return None
        # The first size of a source counts. A file that could not be read was not cut.
        cut = ((shard.source, shard.cut_bytes) for shard in read_plan(path) if shard.format != "unreadable")
        return Sizes.of(itertools.chain(cut, _unplanned(output, identity_digest(identity))))
    except PipelineError as error:
        if error.code == "output.not_readable":
            raise
        return None  # The plan is damaged, and is about to be replaced.


def _unplanned(output: str, job: str) -> Iterator[tuple[str, int]]:
    """Yield source and size of the finished shards of a job that the plan does not have."""
    planned = DigestSet.of(shard.name for shard in read_plan(plan_path(output)))
    if len(others := DigestSet.of(committed_names(output)) - planned):
        try:
            for entry in read_entries(output, others):
                if entry.job == job:
                    yield entry.source, entry.cut_bytes
        except PipelineError as error:
            if error.code == "output.not_readable":
                raise  # An entry that is damaged is about to be removed, and the sizes of the plan matter more.

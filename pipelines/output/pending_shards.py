"""Pending shards: the plan compared with the finished shards, and the reason why each shard is pending."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from pipelines.output.digest_set import DigestSet, chunks, digests_of
from pipelines.output.manifest import plan_path, planned
from pipelines.output.plan_file import Planned, save_plan
from pipelines.output.reconcile import NONE, Reconciled, reconcile
from schemas.shards import Shard
from spanmarker_core.text.counted import counted

#: Reasons why a shard is pending, in the order of messages.
REASONS = ("forced", "output lost or damaged", "content changed", "new")
SKIPPED = "skipped: done"


@dataclass(frozen=True, slots=True)
class PendingShards:
    """The pending work that a run finds in its output folder.

    Attributes:
        output: the output folder.
        plan: the saved plan.
        state: the result of reconciling the folder with the plan.
        left: number of pending shards.
        left_bytes: their size in bytes, as planned.
        reasons: pending shards by reason; only reasons that occur.
    """

    output: str
    plan: Planned
    state: Reconciled
    left: int
    left_bytes: int
    reasons: dict[str, int]

    @property
    def total(self) -> int:
        """Number of planned shards."""
        return len(self.plan.names)

    @property
    def known(self) -> DigestSet:
        """The shards whose rows the output will hold: planned shards, and shards kept without their input."""
        return self.plan.names | self.state.orphaned

    @property
    def pending(self) -> DigestSet:
        """The planned shards that are not finished."""
        return self.plan.names - self.state.done

    @property
    def changed(self) -> bool:
        """Whether the folder's rows have changed or will change."""
        state = self.state
        return any((self.left, state.superseded, len(state.damaged), state.forced, state.pruned))

    @property
    def intent(self) -> str:
        """A summary of the pending work, in one line."""
        state = self.state
        why = ", ".join(f"{count:,} {reason}" for reason, count in self.reasons.items())
        notes = (
            (len(state.orphaned), "of inputs that no longer exist"),
            (state.pruned, "removed because the input no longer exists"),
            (state.superseded, "removed because the input changed"),
            (len(state.damaged), "removed because a file was lost or damaged"),
            (state.forced, "removed because of --force"),
        )
        if self.reasons == {"new": self.total} and not any(count for count, _ in notes):
            return counted(self.total, "shard")
        noted = "".join(f", {count:,} {note}" for count, note in notes if count)
        to_do = f"{self.left:,} to do" + (f" ({why})" if why else "")
        return f"{counted(self.total, 'shard')}: {self.total - self.left:,} done before, {to_do}{noted}"

    def shards(self) -> Iterator[tuple[Shard, str]]:
        """Yield the planned shards, each with its reason."""
        state = self.state
        for chunk in chunks(planned(self.output)):
            keys = digests_of(shard.name for shard in chunk)
            done, damaged, changed = (names.mask(keys) for names in (state.done, state.damaged, state.changed))
            for number, shard in enumerate(chunk):
                if done[number]:
                    yield shard, SKIPPED
                elif state.forced:
                    yield shard, "forced"
                elif damaged[number]:
                    yield shard, "output lost or damaged"
                else:
                    yield shard, "content changed" if changed[number] else "new"


def find_pending(
    output: str,
    shards: Iterable[Shard],
    identity: dict[str, str],
    job: str,
    *,
    prune: bool,
    force: bool,
    held: DigestSet = NONE,
    before_removal: Callable[[], None],
) -> PendingShards:
    """Save the plan and reconcile the output folder with it.

    Args:
        output: the output folder, whose lock is held.
        shards: the plan; memory holds the digests and sizes of the shards only.
        identity: identity of the job.
        job: digest of the identity.
        prune: whether to remove finished shards if the plan contains none of their files.
        force: whether to remove all finished shards.
        held: shards whose files stay even if their entries are removed, because a snapshot of a table names them.
        before_removal: called after the plan is saved and before the first finished shard is removed; with `force`
            even if there is none.

    Raises:
        PipelineError: `output.not_readable`, `output.damaged` for an entry of another version, `output.table_damaged`,
            `output.not_writable`.
    """
    plan = save_plan(plan_path(output), shards, identity)
    state = reconcile(output, plan.names, job, prune=prune, force=force, held=held, before_removal=before_removal)
    left, left_bytes = plan.left(state.done)
    counts = dict.fromkeys(REASONS, 0)
    if state.forced:
        counts["forced"] = left
    else:
        open_ = plan.names - state.done
        counts["output lost or damaged"] = len(open_ & state.damaged)
        counts["content changed"] = len((open_ & state.changed) - state.damaged)
        counts["new"] = left - sum(counts.values())
    return PendingShards(
        output, plan, state, left, left_bytes, {reason: count for reason, count in counts.items() if count}
    )

"""`--dry-run`: what a job would read and how its work would be divided. Nothing is written."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape
from rich.table import Column, Table

from pipelines.errors import PipelineError
from pipelines.jobs.base import CorpusJob, ShardJob
from pipelines.jobs.tag import TagJob
from pipelines.output.digest_set import DigestSet
from pipelines.output.job_identity import identity_differences, owner_identity
from pipelines.output.manifest import find_done, has_entries, identity_digest
from pipelines.planning.standard_input import STANDARD_INPUT
from pipelines.runs.planned_job import PlannedJob, plan_job
from pipelines.stages.read import read_records
from pipelines.stages.records import Reject
from pipelines.storage import absolute, use_options
from schemas.shards import Shard
from spanmarker_core.text.counted import counted

#: Files and ids that are listed; the others are counted.
_FILES, _IDS = 20, 3


@dataclass(slots=True)
class _Source:
    """A file, or a folder of text files.

    Attributes:
        form: its format.
        n_bytes: size of its shards, in bytes.
        shards: number of its shards.
        files: number of its files.
        problem: why it cannot be read; "" if it can.
    """

    form: str
    n_bytes: int = 0
    shards: int = 0
    files: int = 0
    problem: str = ""

    @property
    def numbers(self) -> tuple[str, str]:
        """Size and number of shards, as shown."""
        return decimal(self.n_bytes), f"{self.shards:,}"


class _Sources:
    """The files of a plan; the first ones by name.

    Attributes:
        files: number of all files.
        n_bytes: size of all shards, in bytes.
    """

    def __init__(self) -> None:
        self.files = self.n_bytes = 0
        self._shown: dict[str, _Source] = {}
        self._more = _Source("")
        self._last = ""

    def add(self, shard: Shard) -> None:
        """Count a shard."""
        if shard.source not in self._shown and len(self._shown) < _FILES:
            self._shown[shard.source] = _Source(shard.format)
        source = self._shown.get(shard.source, self._more)
        files = len(shard.files) or int(shard.source != self._last)  # Shards of a file follow one another.
        self._last = shard.source
        self.files += files
        self.n_bytes += shard.n_bytes
        source.files += files
        source.n_bytes += shard.n_bytes
        source.shards += 1
        source.problem = shard.reason or source.problem

    def table(self) -> Table:
        """Return the table of the files."""
        numbers = [Column(name, justify="right") for name in ("size", "shards")]
        table = Table(Column("file", overflow="fold"), "format", *numbers, box=None, pad_edge=False)
        for path, source in self._shown.items():
            name = f"{path}/ ({counted(source.files, 'file')})" if source.form.startswith("text") else path
            table.add_row(escape(name), escape(source.problem or source.form), *source.numbers)
        if self._more.files:
            table.add_row(f"and {self._more.files:,} more", "", *self._more.numbers)
        return table


def dry_run(job: ShardJob, console: Console) -> None:
    """Print the files, formats, sizes and shards of a job, the columns, and the ids of its first documents.

    Args:
        job: the job.
        console: receives the output of the command.

    Raises:
        CodedError: an error that the run would meet before it tags.
    """
    if any(each in STANDARD_INPUT for each in job.input):
        problem = "  --dry-run: standard input can be read once only, by the run itself"
        raise PipelineError("job.invalid", problems=problem)
    use_options(job.storage_option)
    work, output = plan_job(job), absolute(job.output)
    digest = identity_digest(work.identity)
    sources = _Sources()
    names: list[str] = []
    first: Shard | None = None
    for shard in work.shards(output, digest):
        sources.add(shard)
        names.append(shard.name)
        if first is None and shard.format != "unreadable":
            first = shard

    def say(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    limit = job.limit if isinstance(job, TagJob) else None
    say(f"{counted(sources.files, 'file')}, {decimal(sources.n_bytes)}, {counted(len(names), 'shard')}")
    console.print(sources.table(), soft_wrap=True)
    if limit is not None:
        say(f"Documents: the first {limit:,}, of which the last is in the last shard above")
    if isinstance(job, CorpusJob) and not (isinstance(job, TagJob) and job.samples):
        columns = job.columns
        made = " (or made of file and row)" if columns.make_ids else ""
        language = f", language from {columns.language!r}" if columns.language else ""
        say(f"Columns: id from {columns.id!r}{made}, text from {columns.text!r}{language}")
        if first is not None and (ids := _ids(first, work, digest)):
            say(f"First ids: {', '.join(ids)}")
    say(f"Output: {output} ({_state(output, work, names)})")
    say("Nothing was written. The same command without --dry-run starts the job.")


def _ids(shard: Shard, work: PlannedJob, digest: str) -> list[str]:
    """Return the ids of the first documents of a shard."""
    found = itertools.islice(read_records(shard, work.task(digest).columns), _IDS)
    return [str(item.document_id) for item in found if not isinstance(item, Reject)]


def _state(output: str, work: PlannedJob, names: Iterable[str]) -> str:
    """Return what the output holds."""
    theirs = owner_identity(output)
    if not has_entries(output):
        return "no finished shards"
    if theirs is None or identity_differences(theirs, work.identity):
        return "it belongs to another job, so the run would refuse it without --force"
    planned = DigestSet.of(names)
    return f"{len(planned & find_done(output).done):,} of {len(planned):,} shards are done already"

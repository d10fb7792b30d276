"""Whose an output folder is. `job.json` says it; without it, the entries of finished shards do.

A folder that holds files with the names of ours, and neither of the two, may be somebody's own: it is left alone.
"""

import json

from pipelines.errors import PipelineError
from pipelines.output.layout import tables_of
from pipelines.output.manifest import entry_rows, has_entries, identity_digest
from pipelines.storage import exists, join, names_in, publish_bytes, read_all
from schemas import Table

#: Files that a job writes into the output folder itself.
FILES = ("job.json", "plan.jsonl", "report.json", "report.md", "report.html")
#: Files named in an error; the rest is counted.
_SHOWN = 10


def claim(output: str, identity: dict[str, str], force: bool = False) -> None:
    """Make `output` the folder of the job with this identity, or refuse if it is another's.

    A `job.json` that was lost is written again if all finished shards are this job's.

    Args:
        output: the output folder.
        identity: the job's.
        force: whether another job's folder is let pass; it stays that job's until `take`.

    Raises:
        PipelineError: `output.other_job` with what differs, `output.foreign` with the files,
            `output.not_readable`, `output.damaged` or `output.not_writable`.
    """
    theirs = _read_identity(_path(output))
    if not has_entries(output):
        # A job that never finished a shard, such as one with a mistyped column, has no claim.
        if theirs is None:
            _refuse_foreign(output, tables_of(identity))
    elif differences := _differences(output, theirs, identity):
        if force:
            return
        raise PipelineError("output.other_job", path=output, differences="\n".join(differences))
    # Also where it is there already: an output that can't be written is found out before any work.
    take(output, identity)


def take(output: str, identity: dict[str, str]) -> None:
    """Make `output` the folder of the job with this identity, whosever it was."""
    publish_bytes(_path(output), json.dumps(identity, indent=1, sort_keys=True).encode() + b"\n")


def _path(output: str) -> str:
    return join(output, "job.json")


def _differences(output: str, theirs: dict[str, str] | None, identity: dict[str, str]) -> list[str]:
    """Return what differs between the job whose rows are there and this one, as lines."""
    if theirs is None:
        ours = identity_digest(identity)
        for rows in entry_rows(output, ["shard", "job"]):
            for job in rows["job"].unique().to_pylist():
                if job != ours:
                    return [f"  job digest: there {job!r}, here {ours!r}"]
        return []
    differing = sorted(key for key in theirs.keys() | identity.keys() if theirs.get(key) != identity.get(key))
    return [f"  {key}: there {theirs.get(key)!r}, here {identity.get(key)!r}" for key in differing]


def _read_identity(path: str) -> dict[str, str] | None:
    """Return the identity that a `job.json` holds; None if there is none, or what there is holds no identity."""
    try:
        if not exists(path):
            return None
        values = json.loads(read_all([path])[0])
    except OSError as error:
        raise PipelineError("output.not_readable", path=path, reason=error) from error
    except ValueError:
        return None
    ours = isinstance(values, dict) and "code" in values and bool(values.keys() & {"model", "tokenizer"})
    return values if ours and all(isinstance(value, str) for value in values.values()) else None


def _refuse_foreign(output: str, tables: tuple[Table, ...]) -> None:
    files = sorted(set(names_in(output, "")).intersection(FILES))
    for folder in [*(table.name for table in tables), "manifest"]:
        files += [f"{folder}/{name}" for name in names_in(join(output, folder), "")]
    if files:
        lines = [f"  {file}" for file in files[:_SHOWN]]
        more = [f"  and {len(files) - _SHOWN:,} more"] if len(files) > _SHOWN else []
        raise PipelineError("output.foreign", path=output, files="\n".join(lines + more))

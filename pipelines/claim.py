"""Whose an output folder is. `job.json` says it; without it, the entries of finished shards do.

A folder that holds files with the names of ours, and neither of the two, may be somebody's own: it is left alone.
"""

import json

from pipelines.errors import PipelineError
from pipelines.manifest import TABLES, identity_digest, is_shard_name, read_entries
from pipelines.storage import exists, join, names_in, publish_bytes, read_all

#: Files that a job writes into the output folder itself.
_FILES = ("job.json", "plan.jsonl", "report.json", "report.md")
#: Files named in an error; the rest is counted.
_SHOWN = 10


def claim(output: str, identity: dict[str, str]) -> None:
    """Make `output` the folder of the job with this identity, or refuse if it is another's.

    A `job.json` that was lost is written again if all finished shards are this job's.

    Raises:
        PipelineError: `output.other_job` with what differs, `output.foreign` with the files,
            `output.not_readable`, `output.damaged` or `output.not_writable`.
    """
    path = join(output, "job.json")
    finished = sorted(name for name in names_in(join(output, "manifest"), ".json") if is_shard_name(name))
    theirs = _read_identity(path)
    if theirs is None and finished:
        for entry in read_entries(output, finished):
            if entry.job != identity_digest(identity):
                difference = f"  job digest: there {entry.job!r}, here {identity_digest(identity)!r}"
                raise PipelineError("output.other_job", path=output, differences=difference)
    elif theirs is None:
        _refuse_foreign(output)
    # A job that never finished a shard, such as one with a mistyped column, has no claim.
    elif finished and theirs != identity:
        differing = sorted(key for key in theirs.keys() | identity.keys() if theirs.get(key) != identity.get(key))
        lines = [f"  {key}: there {theirs.get(key)!r}, here {identity.get(key)!r}" for key in differing]
        raise PipelineError("output.other_job", path=output, differences="\n".join(lines))
    # Also where it is there already: an output that can't be written is found out before any work.
    publish_bytes(path, json.dumps(identity, indent=1, sort_keys=True).encode() + b"\n")


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
    ours = isinstance(values, dict) and "model" in values and "code" in values
    return values if ours and all(isinstance(value, str) for value in values.values()) else None


def _refuse_foreign(output: str) -> None:
    files = sorted(set(names_in(output, "")).intersection(_FILES))
    for folder in [*(table.name for table in TABLES), "manifest"]:
        files += [f"{folder}/{name}" for name in names_in(join(output, folder), "")]
    if files:
        lines = [f"  {file}" for file in files[:_SHOWN]]
        more = [f"  and {len(files) - _SHOWN:,} more"] if len(files) > _SHOWN else []
        raise PipelineError("output.foreign", path=output, files="\n".join(lines + more))

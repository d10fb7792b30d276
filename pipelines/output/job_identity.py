"""The job that owns an output folder. `job.json` names it; if that is missing, the entries of finished shards do.

A folder that has neither, but holds files with the names of an output's files, may belong to another program, so it
is not touched.
"""

import json
from collections.abc import Mapping

from pipelines.errors import PipelineError
from pipelines.output.layout import tables_of
from pipelines.output.manifest import entry_rows, has_entries, identity_digest
from pipelines.output.progress_file import PROGRESS
from pipelines.storage import exists, join, names_in, publish_bytes, read_all
from schemas import Table

#: Files that a job writes directly into the output folder.
FILES = ("job.json", "plan.jsonl", PROGRESS, "report.json", "report.md", "report.html")
#: Parts of an identity that are options.
_OPTIONS = {
    "decoder",
    "dtype",
    "entity_max_length",
    "gate",
    "id_column",
    "keep_columns_in",
    "labels",
    "language",
    "language_column",
    "limit",
    "max_next_context",
    "max_prev_context",
    "max_tokens",
    "model",
    "scheme",
    "sentence_breaks",
    "tag_column",
    "text_column",
    "threshold",
    "token_column",
    "write_sentences",
}
#: Files named in an error message; the others are counted.
_SHOWN = 10


def acquire(output: str, identity: dict[str, str], force: bool = False) -> None:
    """Acquire an output folder for a job, or raise an error if another job owns it.

    A missing `job.json` is written again if all finished shards belong to this job.

    Args:
        output: the output folder.
        identity: identity of the job.
        force: whether another job's folder is accepted; it belongs to that job until `write_identity` is called.

    Raises:
        PipelineError: `output.other_job` with the differences, `output.foreign` with the files,
            `output.not_readable`, `output.damaged` or `output.not_writable`.
    """
    theirs = owner_identity(output)
    if not has_entries(output):
        # A job that never finished a shard, such as one with a mistyped column, does not own the folder.
        if theirs is None:
            _refuse_foreign(output, tables_of(identity))
    elif differences := _differences(output, theirs, identity):
        if force:
            return
        raise PipelineError("output.other_job", path=output, differences="\n".join(differences))
    # Written even if it exists, so that an output that is not writable is detected before any work.
    write_identity(output, identity)


def write_identity(output: str, identity: dict[str, str]) -> None:
    """Write the identity of a job into an output folder, whichever job owned it before.

    Args:
        output: the output folder.
        identity: identity of the job.

    Raises:
        PipelineError: `output.not_writable`.
    """
    publish_bytes(_path(output), json.dumps(identity, indent=1, sort_keys=True).encode() + b"\n")


def _path(output: str) -> str:
    return join(output, "job.json")


def _differences(output: str, theirs: dict[str, str] | None, identity: dict[str, str]) -> list[str]:
    """Return the differences between the job that owns the rows and this one, as lines."""
    if theirs is None:
        ours = identity_digest(identity)
        for rows in entry_rows(output, ["shard", "job"]):
            for job in rows["job"].unique().to_pylist():
                if job != ours:
                    return [f"  job digest: {job[:12]}… there, {ours[:12]}… here"]
        return []
    return identity_differences(theirs, identity)


def identity_differences(there: Mapping[str, str], here: Mapping[str, str]) -> list[str]:
    """Return the differences between two identities as lines of an error message, sorted by key.

    Args:
        there: identity of an existing output.
        here: identity of the current job.
    """
    differing = sorted(key for key in there.keys() | here.keys() if there.get(key) != here.get(key))
    return [f"  {_name(key)}: {_value(there, key)} there, {_value(here, key)} here" for key in differing]


def _name(key: str) -> str:
    """Return the option that decides a part of an identity, or the part if there is none."""
    return f"--{key.replace('_', '-')}" if key in _OPTIONS else key


def _value(identity: Mapping[str, str], key: str) -> str:
    """Return a value for a message; newer settings are in an identity only if they are not the default."""
    value = identity.get(key, "None")
    return "none" if value == "None" else f"{value[:12]}…" if key in ("model", "tokenizer") else value


def owner_identity(output: str) -> dict[str, str] | None:
    """Return the identity in the `job.json` of an output; None if the file is missing or holds no identity.

    Args:
        output: the output folder.

    Raises:
        PipelineError: `output.not_readable`.
    """
    path = _path(output)
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

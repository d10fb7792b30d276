"""The command line that repeats a job."""

import shlex
from typing import Any

from pipelines.jobs.base import ShardJob
from pipelines.jobs.hidden import HIDDEN


def command_line(job: ShardJob) -> str:
    """Return the command line of a job, with all options that differ from their defaults. `…` replaces secret values.

    Args:
        job: the job.

    >>> from pipelines.jobs.tag import TagJob
    >>> print(command_line(TagJob(input=["my docs/*.parquet"], output="out", workers=2, storage_option=["key=1"])))
    spanmarker tag --input 'my docs/*.parquet' --output out --workers 2 --storage-option key=…
    """
    words = ["spanmarker", job.verb]
    last: list[str] = []
    for name, field in type(job).model_fields.items():
        value = getattr(job, name)
        if name == "annotated":
            words.append("--annotated")
        elif value != field.get_default(call_default_factory=True):
            if name == "beam_options":
                last = ["--", *map(HIDDEN[name], value)]
            else:
                words += _option(name, value)
    return " ".join(word if word == "…" or word.endswith("=…") else shlex.quote(word) for word in words + last)


def _option(name: str, value: Any) -> list[str]:
    option = f"--{name.replace('_', '-')}"
    if isinstance(value, bool):
        return [option if value else f"--no-{option[2:]}"]
    if isinstance(value, dict):
        value = [f"{key}={amount}" for key, amount in value.items()]
    shown = HIDDEN.get(name, str)
    return [word for each in (value if isinstance(value, list) else [value]) for word in (option, shown(each))]

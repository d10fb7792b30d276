"""Reading of a job: a TOML file with the same names as the options of the command, which override it.

# spanmarker tag --job tag.toml
input = ["docs/*.parquet"]
output = "out/"
workers = 2
"""

import json
import tomllib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from pipelines.errors import PipelineError

Job = TypeVar("Job", bound=BaseModel)


def read_job(kind: type[Job], path: str | None, options: dict[str, Any]) -> Job:
    """Read a job file, if given, and override its values with `options`.

    Where the file has a table, a list of NAME=VALUE overrides it name by name.

    Args:
        kind: the job model.
        path: path of the job file; None for no file.
        options: options of the command line; None and empty values count as not given.

    Raises:
        PipelineError: `job.unreadable`; `job.invalid`, which lists all problems.
    """
    values = job_values(path)
    for name, value in options.items():
        if isinstance(values.get(name), dict) and isinstance(value, list):
            try:
                values[name] |= named_values(value)
            except ValueError as error:
                raise PipelineError("job.invalid", problems=f"  {name}: {error}") from None
        elif value not in (None, []):
            values[name] = value
    try:
        return kind(**values)
    except ValidationError as error:
        lines = [
            f"  {'.'.join(map(str, problem['loc'])) or 'job'}: {problem['msg'].removeprefix('Value error, ')}"
            + (f" (got {problem['input']!r})" if _may_be_shown(problem) else "")
            for problem in error.errors(include_url=False)
        ]
        raise PipelineError("job.invalid", problems="\n".join(lines)) from None


def named_values(given: list[str]) -> dict[str, Any]:
    """Parse a list of NAME=VALUE, where VALUE is JSON or a plain string.

    >>> named_values(["lstm=0", "aggregation=mean", "share_weights=true"])
    {'lstm': 0, 'aggregation': 'mean', 'share_weights': True}

    Args:
        given: items of the form NAME=VALUE.

    Raises:
        ValueError: an item has another form, or a name appears twice.
    """
    values: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ValueError(f"{text!r} is not NAME=VALUE")
        if name in values:
            raise ValueError(f"{name} occurs twice")
        try:
            values[name] = json.loads(value)
        except ValueError:
            values[name] = value
    return values


def job_values(path: str | None) -> dict[str, Any]:
    """Return the values of a job file.

    Args:
        path: path of the job file; None gives no values.

    Raises:
        PipelineError: `job.unreadable`.
    """
    if path is None:
        return {}
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PipelineError("job.unreadable", path=path, reason=error) from error


def _may_be_shown(problem: Any) -> bool:
    secret = {"storage_option", "beam_options"}.intersection(problem["loc"])
    given = problem["type"] != "missing" and problem["input"] is not None
    return bool(problem["loc"]) and given and not secret

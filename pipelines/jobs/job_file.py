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
                raise PipelineError("job.invalid", problems=f"  --{_dashed(name)}: {error}") from None
        elif value not in (None, []):
            values[name] = value
    try:
        return kind(**values)
    except ValidationError as error:
        in_file = {name for name in values if options.get(name) in (None, [])}
        lines = [f"  {_shown(problem, path, in_file)}" for problem in error.errors(include_url=False)]
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


def _shown(problem: Any, path: str | None, in_file: set[str]) -> str:
    """Return a problem as the user wrote it: with the option of the command line, or the name in the job file."""
    name, *more = map(str, problem["loc"] or ("job",))
    if problem["loc"] and name not in in_file and (path is None or problem["type"] != "missing"):
        name = f"--{_dashed(name)}"
    where = ".".join([name, *more])
    if problem["type"] == "missing":
        return f"{where}: required, but not given"
    text = problem["msg"].removeprefix("Value error, ")
    given = repr(problem["input"])
    secret = {"storage_option", "beam_options"}.intersection(problem["loc"])
    stated = isinstance(problem["input"], str) and given in text
    show = problem["loc"] and problem["input"] is not None and not secret and not stated
    return f"{where}: {text}" + (f" (got {given})" if show else "")


def _dashed(name: str) -> str:
    return name.replace("_", "-")

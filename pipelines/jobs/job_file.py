"""Reading of a job: a TOML file with the same names as the options of the command, which override it.

# spanmarker tag --job tag.toml
input = ["docs/*.parquet"]
output = "out/"
workers = 2
"""

import json
import re
import tomllib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from pipelines.errors import PipelineError
from pipelines.jobs.problems import JobFile, option_of, problems_of
from spanmarker_core.text.messages import continued

Job = TypeVar("Job", bound=BaseModel)
_LINE = re.compile(r"line (\d+)")


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
    file = None if path is None else JobFile(path, _content(path))
    values = _parsed(file)
    for name, value in options.items():
        pairs = isinstance(value, list) and all("=" in str(each) for each in value)
        if isinstance(values.get(name), dict) and value and pairs:
            try:
                values[name] |= named_values(value)
            except ValueError as error:
                raise PipelineError("job.invalid", problems=f"  {option_of(kind, name)}: {error}") from None
        elif value not in (None, []):
            values[name] = value
    try:
        return kind(**values)
    except ValidationError as error:
        given = {name for name, value in options.items() if value not in (None, [])}
        lines = [f"  {line}" for line in problems_of(kind, error, options, given, file)]
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
    return _parsed(None if path is None else JobFile(path, _content(path)))


def _content(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise PipelineError("job.unreadable", path=path, reason="it is not text in UTF-8") from error
    except OSError as error:
        raise PipelineError("job.unreadable", path=path, reason=error) from error


def _parsed(file: JobFile | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        return tomllib.loads(file.text)
    except tomllib.TOMLDecodeError as error:
        raise PipelineError("job.unreadable", path=file.path, reason=_toml_problem(str(error), file.text)) from error


def _toml_problem(message: str, text: str) -> str:
    """Return why a file is not TOML, with the line.

    >>> print(_toml_problem("Invalid value (at line 1, column 10)", "output = out/"))
    line 1 is not TOML (invalid value): output = out/
    Text is in quotes, as in output = "out/", and a list in brackets, as in input = ["docs/"]
    """
    reason, _, place = message.removesuffix(")").rpartition(" (at ")
    lines = text.splitlines() or [""]
    found = _LINE.match(place)
    number = int(found[1]) if found else len(lines)
    return (
        f"line {number} is not TOML ({continued(reason)}): {lines[number - 1].strip()}\n"
        'Text is in quotes, as in output = "out/", and a list in brackets, as in input = ["docs/"]'
    )

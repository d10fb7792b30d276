"""Problems of a job in plain English: where a setting was given, what is wrong with it, what was perhaps meant."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipelines.jobs.hidden import HIDDEN
from spanmarker_core.shown import Shown
from spanmarker_core.text.messages import continued, likely_name

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails

_NOT = {
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "int_type": "a whole number",
    "float_parsing": "a number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "tuple_type": "a pair",
    "dict_type": "a table",
    "model_type": "a table",
    "byte_size": "a size such as 4GB",
    "byte_size_unit": "a size such as 4GB",
}
_BOUNDS = {
    "greater_than": ("gt", "not more than"),
    "greater_than_equal": ("ge", "less than"),
    "less_than": ("lt", "not less than"),
    "less_than_equal": ("le", "more than"),
}
#: Code of an error of the library, which is inside an error that has one.
_CODE = re.compile(r"\[[a-z_]+\.[a-z_0-9]+\] ")


@dataclass(frozen=True, slots=True)
class JobFile:
    """A job file, as far as its errors need it.

    Attributes:
        path: its path.
        text: its content.
    """

    path: str
    text: str

    def place(self, key: str) -> str:
        """Return the name of the file, and the line that sets a key if there is only one.

        Args:
            key: the key, without those of the tables that hold it.
        """
        pattern = re.compile(rf"""\s*\[?(?:[\w-]+\.)*["']?{re.escape(key)}["']?\s*[=.\]]""")
        lines = [number for number, line in enumerate(self.text.splitlines(), 1) if pattern.match(line)]
        return f"{self.path}, line {lines[0]}" if len(lines) == 1 else self.path


def option_of(kind: "type[BaseModel]", name: str) -> str:
    """Return the option of a field.

    Args:
        kind: the job model.
        name: the field.
    """
    metadata = kind.model_fields[name].metadata if name in kind.model_fields else ()
    shown = next((each for each in metadata if isinstance(each, Shown)), None)
    return shown.option if shown and shown.option else f"--{name.replace('_', '-')}"


def problems_of(
    kind: "type[BaseModel]",
    error: "ValidationError",
    options: Collection[str],
    given: Collection[str],
    file: JobFile | None,
) -> list[str]:
    """Return the problems of a job, one line each.

    Args:
        kind: the job model.
        error: what pydantic found.
        options: names of the fields that the command has options for.
        given: names of those that were given on the command line.
        file: the job file; None if there is none.
    """
    found = [_problem(kind, each, options, given, file) for each in error.errors(include_url=False)]
    return [line for each in found for line in each.splitlines()]


def _problem(
    kind: "type[BaseModel]",
    details: "ErrorDetails",
    options: Collection[str],
    given: Collection[str],
    file: JobFile | None,
) -> str:
    if not details["loc"]:
        fields = re.compile(r"`(\w+)`")
        return fields.sub(lambda name: option_of(kind, name[1]) if name[1] in options else name[1], _message(details))
    name, *inner = map(str, details["loc"])
    field = kind.model_fields.get(name)
    if details["type"] == "no_input":
        return str(details["msg"])
    if details["type"] == "extra_forbidden":
        key, known = _unknown_key(kind, [name, *inner])
        where = file.place(key) if file else "this job"
        return f"{where}: unknown key {key}{likely_name(key, known)}"
    if details["type"] in ("missing", "too_short", "string_too_short") and not inner:
        where = option_of(kind, name) if name in options or field is None else name
        if name in given:
            return f"{where} is empty"
        if file is not None and details["type"] != "missing" and name not in options:
            return f"{file.place(name)}: {name} is empty"
        meant = continued((field.description or "" if field else "").partition(". ")[0].partition("  [")[0])
        return f"{where} is missing{': ' if meant else ''}{meant}"
    if name in given or file is None or not re.search(rf"(?m)\b{re.escape(name)}\b", file.text):
        where = option_of(kind, name) if name in options else name
    else:
        where = f"{file.place(inner[-1] if inner else name)}: {'.'.join([name, *inner])}"
    bounds = _bounds_of(field.metadata) if field is not None and not inner else {}
    text = what_is_wrong(details, bounds, secret=name in HIDDEN)
    return text if text.startswith(f"{where} ") else f"{where}: {text}"


def _bounds_of(metadata: Sequence[Any]) -> dict[str, float]:
    return {
        bound: getattr(each, bound) for each in metadata for bound in ("gt", "ge", "lt", "le") if hasattr(each, bound)
    }


def what_is_wrong(details: "ErrorDetails", bounds: Mapping[str, float] | None = None, secret: bool = False) -> str:
    """Return what is wrong with a value.

    Args:
        details: an error of pydantic.
        bounds: bounds of the value: gt, ge, lt and le.
        secret: whether the value must not be shown.
    """
    form, value, context = details["type"], details["input"], details.get("ctx", {})
    shown = "the value" if secret else _short(value)
    if form in _NOT:
        return f"{shown} is not {_NOT[form]}"
    if form in _BOUNDS:
        return _out_of_bounds(value, {**(bounds or {}), _BOUNDS[form][0]: context[_BOUNDS[form][0]]}, _BOUNDS[form][0])
    if form == "literal_error":
        return not_one_of(value, [choice.strip("'") for choice in re.split(r", | or ", context["expected"])])
    if form in ("too_short", "string_too_short"):
        return "it is empty"
    if form == "call.unknown_option":
        return not_one_of(value, str(context["choices"]).split(", "))
    text = _message(details)
    return text if form in ("value_error", "not_both") or "." in form else f"{shown}: {continued(text)}"


def _out_of_bounds(value: Any, bounds: Mapping[str, float], passed: str) -> str:
    """Return that a number is out of its bounds, and the share that was perhaps meant as percent.

    >>> _out_of_bounds(50, {"ge": 0, "le": 1}, "le"), _out_of_bounds(0, {"ge": 1}, "ge")
    ('50 is not a number from 0 to 1; did you mean 0.5?', '0 is less than 1')
    """
    shown = f"{value:g}" if isinstance(value, float) else value
    low = bounds.get("ge", bounds.get("gt"))
    if low is not None and "le" in bounds:
        span = "from {:g} to {:g}" if "ge" in bounds else "between {:g} and {:g}"
        text = f"{shown} is not a number {span.format(low, bounds['le'])}"
        percent = bounds["le"] == 1 and 10 <= float(value) <= 100
        return text + (f"; did you mean {float(value) / 100:g}?" if percent else "")
    return f"{shown} is {dict(_BOUNDS.values())[passed]} {bounds[passed]:g}"


def _unknown_key(kind: "type[BaseModel]", path: list[str]) -> tuple[str, list[str]]:
    """Return the key of an unknown setting, and the keys that its table may have."""
    from pydantic import BaseModel

    *tables, key = path
    model: Any = kind
    for table in tables:
        field = model.model_fields.get(table) if isinstance(model, type) and issubclass(model, BaseModel) else None
        if field is None:
            continue  # the name of an entry, such as that of a data set
        inner = [field.annotation, *getattr(field.annotation, "__args__", ())]
        model = next((each for each in inner if isinstance(each, type) and issubclass(each, BaseModel)), model)
    return key, list(model.model_fields)


def not_one_of(value: object, choices: Iterable[str]) -> str:
    """Return that a value is not one of some choices, and the one that was perhaps meant.

    Args:
        value: the value.
        choices: the choices.
    """
    known = list(choices)
    return f"{_short(value)} is not one of {', '.join(known)}{likely_name(str(value), known)}"


def _message(details: "ErrorDetails") -> str:
    return _CODE.sub("", details["msg"].removeprefix("Value error, ")).rstrip(".")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."

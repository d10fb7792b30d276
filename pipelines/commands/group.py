"""Groups of commands: their help, and the errors of an invalid command line."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

import typer
from rich.text import Text
from typer.core import TyperGroup

from spanmarker_core.errors import CodedError
from spanmarker_core.text.messages import continued, likely_name

#: The base of the errors of an invalid command line, which typer does not export.
UsageError: Any = typer.BadParameter.__bases__[0]


def show_help(context: typer.Context) -> None:
    """Print the help of a group and end, if no command follows.

    Args:
        context: context of the group.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit


class CommandGroup(TyperGroup):
    """A group of commands that reports an invalid command line in one message, as all other errors."""

    def make_context(self, *arguments: Any, **extra: Any) -> Any:
        """Make the context.

        Args:
            arguments: passed on.
            extra: passed on.
        """
        with _usage_errors():
            return super().make_context(*arguments, **extra)

    def invoke(self, context: Any) -> Any:
        """Run the command that the words name.

        Args:
            context: context of the group.
        """
        with _usage_errors():
            return super().invoke(context)


def in_options(error: CodedError) -> CodedError:
    """Return an error of the library in terms of the command line: the option, and the choice that was perhaps meant.

    Args:
        error: an error of a command.
    """
    if error.code != "call.unknown_option":
        return error
    name, choices = str(error.values["option"]), str(error.values["choices"])
    option = name if name.startswith("-") else f"--{name.replace('_', '-')}"
    likely = likely_name(str(error.values["value"]), choices.split(", ")).removeprefix("; ")
    shown = f"{choices} ({likely})" if likely else choices
    return type(error)(error.code, **{**error.values, "option": option, "choices": shown})


@contextmanager
def _usage_errors() -> Iterator[None]:
    """Print an error of the command line and end with exit code 2."""
    try:
        yield
    except UsageError as error:
        reason, where = _reason(error), error.ctx.command_path if error.ctx else getattr(error, "path", "spanmarker")
        print(f"spanmarker: {reason}{'' if reason.endswith('?') else '.'} See: {where} --help", file=sys.stderr)
        raise typer.Exit(error.exit_code) from None


def _reason(error: Any) -> str:
    text = error.format_message().rstrip(".")
    kind, parameter = type(error).__name__, getattr(error, "param", None)
    if kind == "NoSuchOption":
        options = get_close_matches(error.option_name, error.possibilities or (), n=1)
        return f"unknown option {error.option_name}" + (f"; did you mean {options[0]}?" if options else "")
    if parameter is not None and kind == "MissingParameter":
        meant = Text.from_markup(parameter.help or "").plain.partition(". ")[0]
        return f"{_named(parameter)} is missing: {continued(meant)}"
    if parameter is not None:
        return f"{_named(parameter)}: {_invalid_value(error) or continued(error.message)}"
    if parameter is None and kind == "BadParameter":
        return continued(error.message)
    if needs := re.fullmatch(r"Option '([^']+)' requires an argument", text):
        return f"{needs[1]} needs a value"
    if words := re.fullmatch(r"Got unexpected extra arguments? ?(?:\(s\) )?\((.*)\)", text):
        return f"unexpected words: {words[1]}"
    if unknown := re.match(r"No such command '([^']+)'", text):
        likely = likely_name(unknown[1], list(getattr(error.ctx.command, "commands", {})))
        return f"unknown command {unknown[1]}{likely}"
    return continued(text)


def _invalid_value(error: Any) -> str:
    """Return what is wrong with the value of an option, if pydantic found it; otherwise ""."""
    from pydantic import ValidationError  # imported late, since it takes time

    from pipelines.jobs.problems import what_is_wrong

    if not isinstance(error.__cause__, ValidationError):
        return ""
    bounds = {bound: getattr(error.param, name, None) for bound, name in (("ge", "min"), ("le", "max"))}
    known = {bound: limit for bound, limit in bounds.items() if limit is not None}
    return what_is_wrong(error.__cause__.errors(include_url=False)[0], known)


def _named(parameter: Any) -> str:
    """Return the name of an option or of an argument."""
    return max(parameter.opts, key=len) if parameter.opts[0].startswith("-") else parameter.metavar.rstrip(".")

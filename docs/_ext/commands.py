"""One page for each group of commands, from the commands themselves: usage, options by panel, defaults, examples.

Importing the commands and making their options does not import torch.
"""

import re
from collections.abc import Iterator
from typing import Any

import typer
from rich.text import Text

from pipelines import cli

#: Options of every command.
EVERYWHERE = {"--help"}


def tree() -> dict[str, Any]:
    """Return all commands by their words, such as "gate fit", with their options made."""
    found = {}
    root = typer.main.get_command(cli.app)
    with root.make_context("spanmarker", [], resilient_parsing=True) as context:
        for name, command in root.commands.items():
            for word, inner in getattr(command, "commands", {"": command}).items():
                words = f"{name} {word}".strip()
                # Options are made when a command is used. Parsing is resilient: none of them has to be given.
                inner.own_context = inner.make_context(words, [], parent=context, resilient_parsing=True)
                found[words] = inner
                inner.group_panel = command.rich_help_panel
    return found


def pages() -> Iterator[tuple[str, str]]:
    """Yield the page of each group of commands."""
    groups: dict[str, dict[str, Any]] = {}
    for words, command in tree().items():
        groups.setdefault(command.group_panel or "Commands", {})[words] = command
    for group, commands in groups.items():
        yield f"commands-{group.lower()}", _page(group, commands)


def _page(group: str, commands: dict[str, Any]) -> str:
    names = ", ".join(f"`{words}`" for words in commands)
    title = names if len(commands) == 1 else f"{group}: {names}"
    parts = [f"# {title}\n"]
    parts += [_section(words, command, sub=len(commands) > 1) for words, command in commands.items()]
    return "\n".join(parts)


def _section(words: str, command: Any, sub: bool) -> str:
    lines = [f"## `spanmarker {words}`\n"] if sub else []
    lines += [f"```{{program}} spanmarker {words}\n```\n", _markdown(_plain(command.help)), ""]
    usage = " ".join(command.collect_usage_pieces(command.own_context))
    lines += ["```text", f"spanmarker {words} {usage}", "```\n"]
    panels: dict[str, list[Any]] = {}
    for parameter in command.params:
        if getattr(parameter, "hidden", False) or EVERYWHERE & set(parameter.opts):
            continue
        is_option = parameter.param_type_name == "option"
        panel = (parameter.rich_help_panel or "Options") if is_option else "Arguments"
        panels.setdefault(panel, []).append(parameter)
    for panel, parameters in sorted(panels.items(), key=lambda item: item[0] != "Arguments"):
        lines += [f"**{panel}**\n", *(_parameter(parameter) for parameter in parameters)]
    lines += _epilog(command.epilog or "")
    return "\n".join(lines)


def _parameter(parameter: Any) -> str:
    is_option = parameter.param_type_name == "option"
    flags = [*parameter.opts, *parameter.secondary_opts] if is_option else [parameter.metavar or parameter.name.upper()]
    metavar = _metavar(parameter) if is_option else ""
    text, _, facts = _plain(parameter.help).partition("  [")
    facts = facts.rstrip("]")
    lines = [_markdown(text)]
    if facts.startswith("default: "):
        lines += ["", f"Default: {_markdown(facts.removeprefix('default: '))}."]
    elif is_option and not parameter.required and _own_default(parameter) is not None:
        lines += ["", f"Default: {_markdown(str(_own_default(parameter)))}."]
    if parameter.required or facts.startswith("required"):
        others = facts.removeprefix("required")  # such as " or --samples"
        lines += ["", f"**Required**{',' if others else ''}{_markdown(others)}."]
    shown = ", ".join(f"{flag} {metavar}".strip() for flag in flags)
    return f"````{{option}} {shown}\n" + "\n".join(lines) + "\n````\n"


def _own_default(parameter: Any) -> Any:
    """Return the default of an option that states none in its text."""
    value = parameter.default
    return None if callable(value) or isinstance(value, bool) or value in (None, "", (), []) else value


def _metavar(parameter: Any) -> str:
    if parameter.is_flag or parameter.metavar == "":
        return ""
    return parameter.metavar or str(parameter.type.name).upper()


def _epilog(text: str) -> list[str]:
    """Return the examples as commands with a comment above each, and other paragraphs as they are."""
    plain = _plain(text)
    if "spanmarker " not in plain:
        return [_markdown(plain), ""] if plain else []
    blocks, others = [], []
    for line in plain.splitlines():
        stripped = line.strip()
        if stripped.startswith("spanmarker "):
            blocks.append(f"$ {stripped}")
        elif stripped.startswith("Exit codes:"):
            others.append("Its exit codes are [those of all commands](../exit-codes.md).")
        elif stripped and stripped.rstrip(":") != "Examples":
            blocks.append(f"# {stripped.rstrip(':')}")
    return ["**Examples**\n", "```console", *blocks, "```\n", *others, ""]


def _plain(text: str | None) -> str:
    """Return a help text without the markup of the terminal."""
    return Text.from_markup(text or "").plain.strip()


def _markdown(text: str) -> str:
    """Return a text whose characters mean themselves in Markdown."""
    return re.sub(r"([*_<])", r"\\\1", text)

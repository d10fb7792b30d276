"""The page of all errors, from the two tables of messages."""

import re
from collections.abc import Iterator

from pipelines.errors import EXIT_CODES, EXIT_FAULT, PipelineError
from spanmarker_core.errors import CoreError, CoreWarning


def pages() -> Iterator[tuple[str, str]]:
    """Yield the page."""
    lines = [
        "# Errors and warnings",
        "",
        "An error is one message that begins with its code: `[area.what]`. It gives the value that was found, the",
        "limit, and what to do. Codes are stable: match them, not the words. From Python, the exception has the code",
        "as `error.code`. The number is the exit code of the command ([all exit codes](../exit-codes.md)); *v* marks a",
        "place where the message shows a value.",
        "",
    ]
    errors = {**CoreError.MESSAGES, **PipelineError.MESSAGES}
    areas: dict[str, list[str]] = {}
    for code in errors:
        areas.setdefault(code.partition(".")[0], []).append(code)
    for area in sorted(areas):
        lines += [f"## {area}", ""]
        for code in areas[area]:
            lines += _entry(code, errors[code], f" · exit code {EXIT_CODES.get(code, EXIT_FAULT)}")
    if warnings := getattr(CoreWarning, "MESSAGES", None):
        lines += ["## Warnings", ""]
        for code, message in warnings.items():
            lines += _entry(code, message, "")
    yield "errors", "\n".join(lines)


def _entry(code: str, message: str, note: str) -> list[str]:
    text = re.sub(r"\{[^{}]*\}", "\0", message).replace("{{", "{").replace("}}", "}")
    for plain, escaped in (("\\", "\\\\"), ("*", "\\*"), ("_", "\\_"), ("<", "&lt;"), ("[", "\\["), ("`", "\\`")):
        text = text.replace(plain, escaped)
    text = " ".join(text.replace("\0", "*v*").split())
    return [f"### `{code}`", "", f"{text}{note}", ""]

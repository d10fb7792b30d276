"""The page of metrics and log events, from the functions that write them."""

import inspect
import re
import textwrap
from collections.abc import Iterator

from pipelines.runs import json_log, prometheus


def pages() -> Iterator[tuple[str, str]]:
    """Yield the page."""
    lines = [
        "# Metrics and log events",
        "",
        "## Metrics",
        "",
        "`--metrics FILE` writes gauges in the Prometheus text format when a run begins, every "
        f"{prometheus.INTERVAL:g} seconds, and when it ends in any way. `--metrics-push URL` pushes them to a "
        f"Pushgateway at the start, every {prometheus.PUSH_INTERVAL:g} seconds and at the end. Every series has "
        "the label `output`. "
        "`spanmarker_run_*` describe the run, `spanmarker_output_*` all rows of the output; the latter are there after "
        "a run that ends with a report.",
        "",
        "| gauge | label | |",
        "| --- | --- | --- |",
    ]
    for name, (meaning, label) in prometheus.GAUGES.items():
        lines.append(f"| `spanmarker_{name}` | {f'`{label}`' if label else ''} | {meaning} |")
    lines += [
        "",
        "## Log events",
        "",
        "`--log-json FILE` appends one JSON object per line; `-` is standard error. Each has `time` (UTC), `event` and "
        "the fields of the event.",
        "",
        "```text",
        textwrap.dedent(_events()),
        "```",
        "",
    ]
    yield "metrics", "\n".join(lines)


def _events() -> str:
    """Return the table of events in the docstring of their module."""
    assert json_log.__doc__
    blocks = re.findall(r"(?m)(?:^    \S.*\n)+", inspect.cleandoc(json_log.__doc__) + "\n")
    (events,) = [block for block in blocks if "run.started" in block]
    return events.rstrip()

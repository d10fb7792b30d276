"""The page of metrics and log events, from the functions that write them."""

import inspect
import re
import textwrap
from collections.abc import Iterator

from pipelines.report.run_counts import RunCounts
from pipelines.runs import json_log, prometheus


def pages() -> Iterator[tuple[str, str]]:
    """Yield the page."""
    lines = [
        "# Metrics and log events",
        "",
        "## Metrics",
        "",
        "`--metrics FILE` writes gauges in the Prometheus text format when a run begins, every "
        f"{prometheus.INTERVAL:g} seconds, and when it ends in any way. Every series has the label `output`. "
        "`spanmarker_run_*` describe the run, `spanmarker_output_*` all rows of the output; the latter are there after "
        "a run that ends with a report.",
        "",
        "| gauge | label | |",
        "| --- | --- | --- |",
    ]
    text = exposition()
    series = re.findall(r"(?m)^(spanmarker_\w+)\{([^}]*)\}", text)
    labels = {name: label for name, pairs in series for label in re.findall(r"(\w+)=", pairs) if label != "output"}
    for name, meaning in re.findall(r"(?m)^# HELP (spanmarker_\w+) (.*)$", text):
        label = f"`{labels[name]}`" if name in labels else ""
        lines.append(f"| `{name}` | {label} | {meaning} |")
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


def exposition() -> str:
    """Return a metrics file in which every gauge occurs with its label."""
    one = {"x": 1}
    counts = RunCounts()
    for name in ("reject_codes", "labels", "stage_seconds"):
        getattr(counts, name).update(one)
    found = {"rejects": {"by_code": one}, "entities_by_label": one, "counts": {}, "shards": 1}
    return prometheus.exposition("out/", counts, {"output": found}, (None,)).decode()


def _events() -> str:
    """Return the table of events in the docstring of their module."""
    assert json_log.__doc__
    blocks = re.findall(r"(?m)(?:^    \S.*\n)+", inspect.cleandoc(json_log.__doc__) + "\n")
    (events,) = [block for block in blocks if "run.started" in block]
    return events.rstrip()

"""A finished run in one sentence, and what to do with its rows."""

import shlex
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pipelines.pages.figures import percent
from pipelines.report.run_counts import rejects_in
from pipelines.storage import join
from pipelines.texts.named import root_of
from spanmarker_core.text.counted import counted
from spanmarker_core.text.languages import language_name


def verdict(values: Mapping[str, Any]) -> str:
    """Return the outcome of a run: documents and rejects, and whether the density of entities is as expected.

    Args:
        values: values of the report.
    """
    output, counts = values["output"], values["output"]["counts"]
    verb = "prepared" if output["found"] is None else "tagged"
    done, rejects = counts.get("tagged", counts.get("prepared", 0)), rejects_in(counts)
    parts = [f"{counted(done, 'document')} {verb}"]
    if empty := counts.get("empty", 0):
        parts.append(f"{empty:,} empty")
    parts.append(f"{rejects:,} rejected" if rejects else "nothing rejected")
    told = [", ".join(parts)]
    if left := values["this_run"]["shards_left"]:
        told.append(f"{counted(left, 'shard')} left to do")
    density = output["density"]
    if density and not density["no_band"]:
        judged, odd = density["sources"] - density["without_words"], density["too_few"] + density["too_many"]
        if odd:
            told.append(f"{odd:,} of {counted(judged, 'source')} {'has' if odd == 1 else 'have'} an unusual density")
        elif judged:
            told.append(f"{counted(judged, 'source')} {'looks' if judged == 1 else 'look'} as expected")
    return "; ".join(told)


def describe_model_in_words(values: Mapping[str, Any]) -> str:
    """Return the model's name, languages, number of labels and F1, as far as the report knows them.

    Args:
        values: values of the report.
    """
    model = values.get("model")
    if not model:
        return ""
    parts = [language_name(code) for code in model["languages"]]
    parts.append(counted(len(model["labels"]), "label"))
    if model["f1"] is not None:
        parts.append(f"F1 {percent(model['f1'])} on its {model['f1_on']} data")
    return f"{model['name'] or 'unnamed'} ({', '.join(parts)})"


def started_in_words(started: str) -> str:
    """Return the start of a run as people write it.

    Args:
        started: UTC, ISO 8601.

    >>> started_in_words("2026-11-29T23:39:57+00:00")
    '29 November 2026, 23:39 UTC'
    """
    if not started:
        return ""
    time = datetime.fromisoformat(started)
    return f"{time.day} {time:%B %Y, %H:%M} UTC"


def query(output: str) -> list[str]:
    """Return the lines of a DuckDB query over the entities of an output.

    Args:
        output: path or URL of the output folder.

    >>> query("out/")[1]
    "FROM read_parquet('out/annotations/*.parquet')"
    """
    files = join(output, "annotations", "*.parquet").replace("'", "''")
    return [
        "SELECT label, text, count(*) AS entities, round(avg(score), 2) AS mean_score",
        f"FROM read_parquet('{files}')",
        "GROUP BY ALL ORDER BY entities DESC LIMIT 20;",
    ]


def browse_command(job: Mapping[str, Any]) -> str:
    """Return the command that shows the rows of a job in a browser, with their texts if it has inputs.

    Args:
        job: the resolved job.

    >>> browse_command({"output": "out/", "input": ["lake/*.jsonl", "lake/*.parquet"]})
    'spanmarker browse out/ --sources lake'
    """
    words = ["spanmarker", "browse", str(job.get("output", ""))]
    for root in dict.fromkeys(root_of(pattern) for pattern in job.get("input") or []):
        words += ["--sources", root]
    return shlex.join(words)

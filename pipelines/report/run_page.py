"""The run report as a self-contained HTML page."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from pipelines.pages import render
from pipelines.pages.cells import bar, histogram
from pipelines.pages.figures import decimal, percent, plain, seconds, size
from pipelines.pages.labels import LabelTones
from pipelines.pages.text import Mark, highlighted, name, shown
from pipelines.report.run_markdown import (
    describe_alarms,
    describe_density,
    describe_found,
    describe_languages,
    describe_work,
)
from pipelines.report.verdict import browse_command, describe_model_in_words, query, started_in_words, verdict
from pipelines.shards.stats import STATUSES
from spanmarker_core import charts
from spanmarker_core.text.counted import counted

#: Maximum numbers of entity texts per label, and of characters per text.
_TOP, _TEXT = 5, 40
#: Duration of a run, in seconds, from which its speed over time says something.
_LONG_RUN = 60


def report_page(values: Mapping[str, Any]) -> bytes:
    """Return report.html, which shows the values of report.json.

    Args:
        values: values of the report.
    """
    run, output, job = values["this_run"], values["output"], values["job"]
    tones = LabelTones(output["entities_by_label"])
    return render(
        "run",
        title="Run report",
        headline=verdict(values),
        run=run,
        output=output,
        values=values,
        tags=output["found"] is not None,
        statuses=[status for status in STATUSES if status in output["counts"]],
        alarms=describe_alarms(values),
        facts=[(name, value) for name, value in _facts(values) if value],
        shard_tables=_shard_tables(output),
        work_words=describe_work(output["work"]),
        examples=_examples(output.get("sample"), tones),
        no_examples=_no_examples(values),
        texts=any(each["top"] for each in (output["found"] or {"labels": []})["labels"]),
        legend=tones.legend(),
        labels=_labels(values),
        scored_labels=bool((values.get("model") or {}).get("f1_by_label")),
        found_words=describe_found(output["found"]) if output["found"] else "",
        density_words=describe_density(output["density"]) if output["density"] else "",
        scores_chart=_scores_chart(output["found"]),
        score_words=_score_words(output["found"]),
        pace_chart=_pace_chart(run),
        languages=describe_languages(values),
        query=query(str(job.get("output", ""))),
        browse=browse_command(job),
        rows=_ROWS,
    )


def _examples(sample: Mapping[str, Any] | None, tones: LabelTones) -> list[tuple[Markup, str]]:
    """Return the marked text of each example sentence, and the id of its document."""
    return [
        (
            Markup("{}{}{}").format(
                "… " if each["cut_before"] else "", _marked(each, tones), " …" if each["cut_after"] else ""
            ),
            each["document_id"],
        )
        for each in (sample or {"sentences": []})["sentences"]
    ]


def _marked(sentence: Mapping[str, Any], tones: LabelTones) -> Markup:
    marks = [
        Mark(mark["start"], mark["end"], f"{mark['label']} {mark['score']:.2f}", tone=tones.of(mark["label"]))
        for mark in sentence["marks"]
    ]
    return highlighted(sentence["text"], marks, limit=len(sentence["text"]))


def _no_examples(values: Mapping[str, Any]) -> str:
    """Return a sentence that says why there are no examples; empty for outputs without entities."""
    output = values["output"]
    if output["found"] is None:
        return ""
    if not values["job"].get("examples", True):
        return "Texts of documents are not shown, because the job has --no-examples."
    reason = (output.get("sample") or {}).get("missing")
    return f"No example sentences: {reason}." if reason else ""


def _facts(values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the model, the output and the run, the latter with those kinds of shards that it had."""
    run = values["this_run"]
    kinds = (
        ("done_before", "done before"),
        ("left", "left"),
        ("superseded", "replaced"),
        ("pruned", "removed"),
        ("orphaned", "kept without input"),
    )
    shards = [f"{counted(run['shards_run'], 'shard')} in {seconds(run['seconds'])}"] if run["shards_run"] else []
    shards += [f"{run[f'shards_{kind}']:,} {words}" for kind, words in kinds if run[f"shards_{kind}"]]
    return [
        ("Model", describe_model_in_words(values)),
        ("Output", name(str(values["job"].get("output", "")), 200)),
        ("Run", f"{started_in_words(run['started'])}: {', '.join(shards) or 'nothing to do'}"),
    ]


def _shard_tables(output: Mapping[str, Any]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the tables of shards with their captions; one table if it includes all shards."""
    slowest, largest = output["slowest_shards"], output["largest_shards"]
    if output["shards"] <= len(slowest):
        return [("All shards of the output, the slowest first", slowest)] if slowest else []
    return [("The slowest shards of the output", slowest), ("The largest shards of the output", largest)]


def _labels(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the statistics of each label: counts of all rows, and texts and scores of the sampled rows."""
    output, known = values["output"], (values.get("model") or {}).get("f1_by_label") or {}
    found = {each["label"]: each for each in (output["found"] or {"labels": []})["labels"]}
    counts = output["entities_by_label"]
    words, most = output["counts"].get("words", 0), max(counts.values(), default=0)
    return [
        {
            "label": label,
            "count": count,
            "bar": bar(count / most if most else 0.0),
            "per_1000_words": 1000 * count / words if words else None,
            "f1": known.get(label),
            "mean_score": found[label]["mean_score"] if label in found else None,
            "scores": histogram(found[label]["score_bins"]) if label in found else "",
            "top": _top(found[label]) if label in found else "",
            "short_by": found[label]["counts_too_small_by_up_to"] if label in found else 0,
        }
        for label, count in counts.items()
    ]


def _top(label: Mapping[str, Any]) -> Markup:
    parts = [
        Markup("{}\N{NO-BREAK SPACE}<small>{}</small>").format(shown(each["text"], _TEXT), f"{each['count']:,}")
        for each in label["top"][:_TOP]
    ]
    return Markup('<div class="texts">{}</div>').format(Markup(", ").join(parts))


def _scores_chart(found: Mapping[str, Any] | None) -> Markup | None:
    if not found or not found["rows_looked_at"]:
        return None
    bins = found["score_bins"]
    rows = [(f"{at / len(bins):.2f}", count) for at, count in enumerate(bins)]
    return charts.bars(rows, title="Entities by score", x="score, from", y="entities")


def _score_words(found: Mapping[str, Any] | None) -> str:
    """Return a sentence on the shares of entities with high and with low scores."""
    bins = (found or {"score_bins": []})["score_bins"]
    if not sum(bins):
        return ""
    high, low = sum(bins[-len(bins) // 10 :]) / sum(bins), sum(bins[: len(bins) // 2]) / sum(bins)
    return (
        f"{percent(high, 0)} of the entities have a score of 0.9 or more, and {percent(low, 0)} one below 0.5. A "
        "higher threshold leaves out the entities with the lowest scores."
    )


def _pace_chart(run: Mapping[str, Any]) -> Markup | None:
    pace = run["pace"]
    if run["seconds"] < _LONG_RUN or len(pace) < 2:
        return None
    # Bars start at 0, unlike a line, so that small changes look small.
    rows = [(f"{each['second']:,.0f}", each["words_per_second"]) for each in pace]
    return charts.bars(rows, title="Words per second during the run", x="seconds since workers were ready", y="words/s")


# --- rows of the tables: strings are escaped as hostile text, figures sort as numbers ---


def _statuses_words(counts: Mapping[str, int], statuses: Sequence[str]) -> str:
    others = [f"{counts[status]:,} {status}" for status in statuses if counts[status]]
    return f"all {statuses[0]}" if len(others) == 1 and counts[statuses[0]] else ", ".join(others)


def _reject_rows(examples: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    return [
        (
            shown(example["document_id"], 60),
            name(example["source"]),
            example["source_row"],
            example["code"],
            shown(example["message"], 160),
        )
        for example in examples
    ]


def _label_rows(labels: Sequence[Mapping[str, Any]], scored: bool, texts: bool) -> list[tuple[Any, ...]]:
    return [
        (
            name(label["label"]),
            label["count"],
            label["bar"],
            decimal(label["per_1000_words"]),
            *((percent(label["f1"]),) if scored else ()),
            decimal(label["mean_score"]),
            label["scores"],
            *((label["top"],) if texts else ()),
        )
        for label in labels
    ]


def _source_rows(sources: Sequence[Mapping[str, Any]], alarms: Sequence[str]) -> list[tuple[Any, ...]]:
    return [
        (
            name(source["source"]),
            decimal(source["per_1000_words"], 1),
            "" if source["lowest"] is None else f"{source['lowest']:,.1f} to {source['highest']:,.1f}",
            source["words"],
            source["entities"],
            *((source["alarm"] or "",) if alarms else ()),
        )
        for source in sources
    ]


def _stage_rows(stages: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    return [
        (
            f"{stage['stage']} (in parallel)" if stage["beside"] else stage["stage"],
            decimal(stage["seconds"], 1),
            percent(stage["share"]),
            charts.meter(stage["share"] or 0.0),
        )
        for stage in stages
    ]


def _worker_rows(workers: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    return [
        (
            worker["worker"],
            worker["shards"],
            worker["words"],
            decimal(worker["seconds"], 1),
            decimal(worker["words_per_second"], 0),
        )
        for worker in workers
    ]


def _shard_rows(shards: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    return [
        (
            shown(shard["shard"], 80),
            shard["documents"],
            shard["words"],
            size(shard["bytes"]),
            seconds(shard["seconds"]),
            decimal(shard["words_per_second"], 0),
        )
        for shard in shards
    ]


def _reason_rows(run: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    why = {
        "new": "no finished shard exists for these files",
        "content changed": "their files changed after they were done",
        "output lost or damaged": "an output file was missing or had the wrong size",
        "forced": "--force was set",
    }
    rows = [(f"done: {reason}", count, why.get(reason, "")) for reason, count in run["shards_by_reason"].items()]
    rows += [
        (
            "skipped",
            run["shards_done_before"],
            "done before with the same input, model and configuration",
        ),
        ("tried again", run["shards_retried"], "an attempt failed"),
        ("replaced", run["shards_superseded"], "their input changed, and their old rows were removed"),
        ("removed", run["shards_pruned"], f"their input no longer exists: {run['documents_pruned']:,} documents"),
        (
            "kept",
            run["shards_orphaned"],
            f"although their input no longer exists: {run['documents_orphaned']:,} documents",
        ),
        ("left", run["shards_left"], "the run ended before they were done"),
    ]
    return [row for row in rows if row[1]]


def _fact_rows(values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return names and values as a reader writes them; values that say nothing are left out."""
    return [
        (key.replace("_", " "), plain(value)) for key, value in values.items() if value not in (None, "", [], {}, 0)
    ]


_ROWS = {
    "statuses_words": _statuses_words,
    "reject_rows": _reject_rows,
    "label_rows": _label_rows,
    "source_rows": _source_rows,
    "stage_rows": _stage_rows,
    "worker_rows": _worker_rows,
    "shard_rows": _shard_rows,
    "reason_rows": _reason_rows,
    "fact_rows": _fact_rows,
}

"""The run report as Markdown, and the parts of it that are printed on the console."""

from collections.abc import Mapping
from typing import Any

from pipelines.report.verdict import describe_model_in_words, verdict
from pipelines.shards.stats import STATUSES
from pipelines.stages.languages import AUTO, DEFAULT
from spanmarker_core.text.counted import counted
from spanmarker_core.text.markdown import cell, table
from spanmarker_core.text.shortened import shortened

#: Maximum numbers of entity texts per label, and of characters per text.
_TOP, _TEXT = 5, 60


def report_markdown(values: dict[str, Any]) -> bytes:
    """Return report.md, which shows the values of report.json.

    Args:
        values: values of the report.
    """
    run, output = values["this_run"], values["output"]
    counts = output["counts"]
    parts = [
        "# Run report",
        f"**{cell(verdict(values))}**",
        cell(f"Model: {words}") if (words := describe_model_in_words(values)) else "",
        f"Started {run['started']}, {run['seconds']:,} s. {describe_shards(run)} {run['words']:,} words, "
        f"{run['words_per_second']:,} words/s.",
        _table(("why", "shards"), run["shards_by_reason"].items()),
        *(f"**{line}**" for line in map(cell, describe_alarms(values))),
        "## Documents",
        f"{describe_documents(counts)}. Unreadable parts of files, with an unknown number of documents: "
        f"{counts.get('unreadable', 0):,}. Documents whose id also occurs in another shard: "
        f"{_describe_duplicates(output)}.",
        _table(("what", "count"), counts.items()),
        "## Rejects",
        _table(("code", "rejects"), output["rejects"]["by_code"].items()),
        _table(
            ("document", "source", "row", "code", "reason"),
            (["" if value is None else value for value in each.values()] for each in output["rejects"]["examples"]),
        ),
        *_language_parts(values),
        "## Entities",
        _table(("label", "entities"), output["entities_by_label"].items()),
        *_found_parts(output["found"]),
        *_density_parts(output["density"]),
        "## Time and memory",
        "Seconds by stage, over all workers and all runs. Reading, splitting and packing run in parallel with the "
        "model; `wait` is the time in which the model was idle. Shares are relative to the workers' time.",
        _table(
            ("stage", "seconds", "share"),
            ((each["stage"], each["seconds"], _percent(each["share"])) for each in output["stages"]),
        ),
        describe_work(output["work"]),
        _worker_table(run),
        *_shard_tables(output),
        f"Peak memory: {output['worker_peak_rss_bytes'] / 1e6:,.0f} MB per worker at most, "
        f"{run['parent_peak_rss_bytes'] / 1e6:,.0f} MB in the main process.",
        "## Environment",
        _code(values["command"]),
        _table(("", ""), [*values["machine"].items(), *values["versions"].items()]),
        "The job:",
        _table(("", ""), values["job"].items()),
        "Settings that determine the rows:",
        _table(("", ""), values["identity"].items()),
        "Versions that wrote them:",
        _table(("versions", "shards"), output["shards_by_versions"].items()),
    ]
    return ("\n\n".join(part for part in parts if part) + "\n").encode("utf-8", "backslashreplace")


def describe_languages(values: Mapping[str, Any]) -> str:
    """Return a sentence on the origins of the documents' languages; empty if the job has one language.

    Args:
        values: values of the report.
    """
    identity, languages = values["identity"], values["output"].get("languages")
    if languages is None or ("language_column" not in identity and identity["language"] != AUTO):
        return ""
    origins = languages["from"]
    parts = [
        f"{origins[origin]:,} {phrase}"
        for origin, phrase in (
            ("column", "stated in the column"),
            ("detected", "detected"),
            ("option", f"unknown or missing, and so {identity['language']}"),
            ("default", f"not detectable, and so {DEFAULT}"),
        )
        if origin in origins
    ]
    return f"Languages of documents: {', '.join(parts)}."


def _language_parts(values: Mapping[str, Any]) -> list[str]:
    text = describe_languages(values)
    if not text:
        return []
    return ["## Languages", text, _table(("language", "documents"), values["output"]["languages"]["documents"].items())]


def describe_shards(run: Mapping[str, Any]) -> str:
    """Return a sentence on the work that a run did and skipped.

    Args:
        run: values of the run.
    """
    return (
        f"Shards: {run['shards_run']:,} run, {run['shards_done_before']:,} done before, {run['shards_left']:,} left, "
        f"{run['shards_superseded']:,} replaced because their input changed; of inputs that no longer exist, "
        f"{run['shards_pruned']:,} removed ({run['documents_pruned']:,} documents) and {run['shards_orphaned']:,} "
        f"kept ({run['documents_orphaned']:,} documents)."
    )


def describe_documents(counts: Mapping[str, int]) -> str:
    """Return a sentence on the numbers of documents by outcome.

    Args:
        counts: counts of documents.
    """
    parts = [f"{counts[status]:,} {status}" for status in STATUSES if status in counts]
    return f"{counted(counts.get('documents', 0), 'document')} = {' + '.join(parts) or 'none'}"


def describe_alarms(values: Mapping[str, Any]) -> list[str]:
    """Return warnings about the rows of a run: one line, or none.

    Args:
        values: values of the report.
    """
    density = values["output"].get("density")
    if not density or not (density["too_few"] or density["too_many"]):
        return []
    few, many = density["too_few"], density["too_many"]
    kinds = [
        f"{count:,} {'has' if count == 1 else 'have'} {kind}"
        for count, kind in ((few, "too few"), (many, "too many"))
        if count
    ]
    return [
        f"Alarm: of {density['sources']:,} sources, {' and '.join(kinds)} entities for text like the model's own dev "
        f"data ({density['dev']['per_1000_words']:,} per 1,000 words). Inspect them before you use their rows."
    ]


def describe_density(density: Mapping[str, Any]) -> str:
    """Return a sentence on the expected densities that the sources are compared with.

    Args:
        density: values of the densities.
    """
    if density["no_band"]:
        return f"Densities are not compared: {density['no_band']}."
    dev = density["dev"]
    chosen = (
        " Every sentence of the dev data has an entity, so running text has fewer; the lower limit is therefore a "
        "tenth of what it would be otherwise."
    )
    return (
        f"On the dev data of its training, the model found {dev['per_1000_words']:,} entities per 1,000 words "
        f"({dev['entities']:,} in {dev['words']:,} words, {dev['blocks']:,} blocks). A source outside its expected "
        "range raises an alarm. The range is wider for fewer words; of 100 runs over text like the dev data, at most "
        f"about {100 * dev['false_alarm_rate']:.0f} would raise any alarm.{chosen if dev['selected'] else ''}"
    )


def describe_found(found: Mapping[str, Any]) -> str:
    """Return a sentence on the sample of rows used for texts and scores; empty if all rows were used.

    Args:
        found: values of the entity statistics.
    """
    if found["shards_looked_at"] == found["shards"]:
        return ""
    return (
        f"Texts and scores come from a sample: {found['rows_looked_at']:,} of {found['rows']:,} rows, in "
        f"{found['shards_looked_at']:,} of {found['shards']:,} shards, selected by a digest of their names."
    )


def describe_work(work: Mapping[str, Any]) -> str:
    """Return a sentence on the model work that was avoided; empty if no model ran.

    Args:
        work: counts of the model's work.
    """
    if work["useful_token_share"] is None:
        return ""
    scored, halved = "The entities come from the model's tags, so no spans were scored.", work.get("out_of_memory")
    if work["scored_share"] is not None:
        scored = (
            f"The model scored {work['scored_candidates']:,} of {work['candidates']:,} candidate spans, "
            f"{work['scored_share']:.2%}; the gate discarded the others."
        )
    return (
        f"{scored} It encoded {work['tokens']:,} tokens of text; {work['useful_token_share']:.1%} of the positions in "
        "attention were tokens, the others padding."
        + (f" Batches were halved {halved:,} times because memory ran out." if halved else "")
    )


def _found_parts(found: Mapping[str, Any] | None) -> list[str]:
    if not found or not found["labels"]:
        return []
    rows = (
        (
            label["label"],
            label["mean_score"],
            ", ".join(f"{shortened(each['text'], _TEXT)} {each['count']:,}" for each in label["top"][:_TOP]),
            f"{label['counts_too_small_by_up_to']:,}" if label["counts_too_small_by_up_to"] else "exact",
        )
        for label in found["labels"]
    )
    bins = found["score_bins"]
    return [
        "Most frequent texts of each label:",
        describe_found(found),
        _table(("label", "mean score", "texts and counts", "counts too low by up to"), rows),
        "Scores:",
        _table(
            ("from", "below", "entities"),
            ((f"{at / len(bins):.2f}", f"{(at + 1) / len(bins):.2f}", count) for at, count in enumerate(bins) if count),
        ),
    ]


def _density_parts(density: Mapping[str, Any] | None) -> list[str]:
    if not density:
        return []
    rows = (
        (
            each["source"],
            each["words"],
            each["entities"],
            each["per_1000_words"],
            "" if each["lowest"] is None else f"{each['lowest']:,} to {each['highest']:,}",
            each["alarm"] or "",
        )
        for each in density["shown"]
    )
    more = density["sources"] - density["without_words"] - len(density["shown"])
    return [
        "## Density",
        describe_density(density),
        _table(("source", "words", "entities", "per 1,000 words", "expected", "alarm"), rows),
        f"{more:,} more sources that are closer to their expected range." if more else "",
        f"{density['without_words']:,} sources have no tagged words." if density["without_words"] else "",
    ]


def _shard_tables(output: Mapping[str, Any]) -> list[str]:
    heads = ("shard", "documents", "words", "seconds", "words/s")
    names = ("shard", "documents", "words", "seconds", "words_per_second")
    parts = []
    for what in ("slowest", "largest"):
        rows = [[each[name] for name in names] for each in output[f"{what}_shards"]]
        parts += [f"The {what} shards:", _table(heads, rows)] if rows else []
    return parts


def _worker_table(run: Mapping[str, Any]) -> str:
    heads = ("worker", "shards", "words", "seconds", "words/s")
    lines = _table(heads, (list(worker.values()) for worker in run["workers"]))
    more = run["workers_in_all"] - len(run["workers"])
    return f"{lines}\n\n{more:,} more workers with fewer words." if more else lines


def _describe_duplicates(output: Mapping[str, Any]) -> str:
    found = output["duplicate_ids_across_shards"]
    if found["documents"] is None:
        return f"not checked with more than {output['duplicate_ids_looked_for_in_up_to_shards']:,} shards"
    return ", ".join([f"{found['documents']:,}", *map(cell, found["examples"])])


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def _code(line: str) -> str:
    """Return a line as an indented code block, which is safe for any content and ends with the line."""
    return f"    {' '.join(line.split())}" if line else ""


def _table(heads: tuple[str, ...], rows: Any) -> str:
    cells = [[_cell(value) for value in row] for row in rows]
    if not cells:
        return "None." if heads[0] in ("code", "label") else ""
    return "\n".join(table(heads, cells, words=len(heads)))


def _cell(value: Any) -> str:
    text = f"{value:,}" if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)
    return cell(text)

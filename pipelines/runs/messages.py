"""The lines that a run over shards prints at its start and at its end."""

import contextlib
import shlex
from typing import Any

from pipelines.engines import Settings
from pipelines.jobs.base import CorpusJob, ShardJob
from pipelines.jobs.prepare_training import AnnotatedJob
from pipelines.jobs.tag import TagJob
from pipelines.output.pending_shards import PendingShards
from pipelines.pages.figures import size
from pipelines.report.run_counts import rejects_in
from pipelines.report.run_markdown import describe_alarms, describe_documents
from pipelines.storage import join
from schemas import ANNOTATED_SAMPLES, ANNOTATIONS, REJECTS
from schemas.annotated import CODES
from spanmarker_core.bundle.reader import BundleInfo, read_info
from spanmarker_core.errors import CoreError
from spanmarker_core.text.counted import counted
from spanmarker_core.text.languages import language_name

#: Labels, texts of entities and codes of rejects in the last lines.
_SHOWN = 5


def model_line(job: ShardJob) -> str:
    """Return the line on the model of a job: its name, languages, labels and score.

    Args:
        job: the job.
    """
    if isinstance(job, AnnotatedJob):
        return f"Encoder: {job.encoder}"
    assert isinstance(job, CorpusJob)
    return f"Model: {describe_model(read_info(job.model_path))}"


def describe_model(info: BundleInfo) -> str:
    """Return a model's name, languages, number of labels and test F1, as far as its card states them.

    Args:
        info: metadata of the model.
    """
    # Imported late: it takes a quarter of a second.
    from spanmarker_core.card.facts import split_scores, text
    from spanmarker_core.card.metadata import languages
    from spanmarker_core.card.page import read_card_facts

    facts = dict(info.config.facts)
    with contextlib.suppress(CoreError):  # The card is for people: a damaged one doesn't stop a run.
        facts |= read_card_facts(info.path)
    parts = [language_name(code) for code in languages(facts)]
    parts.append(counted(len(info.config.labels) - 1, "label"))
    if test := split_scores(facts).get("test"):
        parts.append(f"test F1 {test['f1']:.1%}")
    return f"{text(facts, 'name') or info.path.name} ({', '.join(parts)})"


def work_line(job: ShardJob, work: PendingShards, settings: Settings) -> str:
    """Return the line on the work of a run: files, bytes, shards, workers and threads.

    Args:
        job: the job.
        work: the work.
        settings: the settings of the engine.
    """
    inputs = f"{counted(work.plan.files, 'file')}, {size(float(work.plan.n_bytes))}, {work.intent}"
    return f"{inputs}. {_where(job, settings)}"


def _where(job: ShardJob, settings: Settings) -> str:
    device = f" on {job.device}" if isinstance(job, TagJob) else ""
    if job.scheduler or job.beam_options:
        return f"The workers of {job.scheduler or 'Beam'}{device}"
    words = f"{counted(settings.workers, 'worker')} with {counted(settings.threads, 'thread')}"
    few = f"; there is no shard for the others of {job.workers}" if settings.workers < job.workers else ""
    return f"{words}{' each' if settings.workers > 1 else ''}{device}{few}"


def last_lines(values: dict[str, Any], output: str, table: str) -> str:
    """Return the lines at the end of a run: what was found, what was rejected, and what to do next.

    Args:
        values: values of the report.
        output: the output folder.
        table: name of its main table.
    """
    counts, run = values["output"]["counts"], values["this_run"]
    found = f"{counted(counts['entities'], 'entity', 'entities')} in " if "entities" in counts else ""
    lines = [
        f"{describe_documents(counts)}; {found}{counted(counts['words'], 'word')}",
        *_most_frequent(values["output"]),
        *_rejects(values["output"], output, table),
    ]
    if run["shards_run"]:
        lines.append(
            f"{counted(run['shards_run'], 'shard')} in {run['seconds']:,.1f} s, {run['words_per_second']:,.0f} words/s"
        )
    if run["shards_orphaned"]:
        kept = run["documents_orphaned"]
        lines.append(f"{kept:,} of the documents are from inputs that no longer exist; --prune removes them")
    if run["shards_pruned"]:
        pruned = counted(run["documents_pruned"], "document")
        lines.append(f"Removed: {pruned} of inputs that no longer exist")
    if amiss := {code: count for code in CODES if (count := counts.get(f"gold_{code}"))}:
        what = ", ".join(f"{count:,} {code}" for code, count in amiss.items())
        lines.append(f"Annotations that cannot be learned, listed in gold_problems: {what}")
    if duplicates := values["output"]["duplicate_ids_across_shards"]["documents"]:
        verb = "has" if duplicates == 1 else "have"
        lines.append(f"{counted(duplicates, 'document')} {verb} an id that also occurs in another shard: see report.md")
    lines += describe_alarms(values)
    lines.append(f"Rows: {join(output, table)}   Report: {join(output, 'report.html')}")
    if table == ANNOTATIONS.name:
        lines += _next(output)
    return "\n".join(lines)


def _most_frequent(output: dict[str, Any]) -> list[str]:
    """Return the lines on the most frequent labels and texts of entities."""
    lines = []
    if labels := list(output["entities_by_label"].items())[:_SHOWN]:
        lines.append("Most frequent labels: " + ", ".join(f"{label} {count:,}" for label, count in labels))
    texts = [
        (each["count"], each["text"], label["label"])
        for label in (output["found"] or {"labels": []})["labels"]
        for each in label["top"]
    ]
    if texts and labels:
        most = sorted(texts, key=lambda each: (-each[0], each[1:]))[:_SHOWN]
        lines.append(
            "Most frequent entities: " + ", ".join(f"{text} ({label}) {count:,}" for count, text, label in most)
        )
    return lines


def _rejects(output: dict[str, Any], folder: str, table: str) -> list[str]:
    """Return the lines on rejects: how many for which reason, and where they are listed."""
    counts = output["counts"]
    if not rejects_in(counts):
        return []
    by_code = list(output["rejects"]["by_code"].items())
    codes = ", ".join(f"{code} {count:,}" for code, count in by_code[:_SHOWN])
    more = f" and {counted(len(by_code) - _SHOWN, 'more reason')}" if len(by_code) > _SHOWN else ""
    # Samples carry their rejects along to the run that tags them.
    listed = table in (ANNOTATIONS.name, ANNOTATED_SAMPLES.name)
    lines = [f"Rejects: {codes}{more}" + (f". Each with its reason: {join(folder, REJECTS.name)}" if listed else "")]
    if counts["unreadable"]:
        what = "sentence or part of a file", "sentences or parts of files"
        if table != ANNOTATED_SAMPLES.name:
            what = "file or part of a file", "files or parts of files"
        lines.append(f"{counted(counts['unreadable'], *what)} could not be read: see rejects")
    return lines


def _next(output: str) -> list[str]:
    """Return two commands to try on an output of entities."""
    rows = f"{join(output, ANNOTATIONS.name)}/*.parquet".replace("'", "''")
    query = f"SELECT label, text, count(*) AS n FROM '{rows}' GROUP BY ALL ORDER BY n DESC LIMIT 20"
    # The quotes of SQL stay readable within double quotes, where a shell still reads a few characters of a path.
    quoted = shlex.quote(query) if set(query) & set('"$`\\!') else f'"{query}"'
    return [
        "Next:",
        f"  spanmarker browse {shlex.quote(output)}",
        f"  duckdb -c {quoted}",
    ]

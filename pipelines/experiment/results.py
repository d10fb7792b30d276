"""Writer of the results of an experiment: results.json with all values, and results.md for reading."""

import json
import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.experiment.runs import SCORES, Run
from pipelines.experiment.scores import counts_of
from pipelines.jobs.experiment import ExperimentJob
from pipelines.storage import publish_bytes
from spanmarker_core.evaluation.scores.significance import over_documents, over_seeds
from spanmarker_core.text.markdown import cell, table

FORMAT_VERSION = 1
_CONVENTIONS = (
    "F1 is micro F1 over exact spans and labels; recall counts all gold entities, including those that a model cannot "
    "reach. ± is the standard error of the mean over seeds (sample standard deviation divided by the square root of "
    "the number of seeds). All runs use the same files: `all` sentences, or the first sentences after documents were "
    "shuffled, so that each size contains the smaller ones."
)
_HOW_COMPARED = (
    "Differences are in points of micro F1 on test, first minus second. Over documents: paired bootstrap with F1 "
    "averaged over seeds within each of {resamples:,} resamples, 95 % percentile interval; p is the share of "
    "resampled differences that are at least as far from the observed difference as that is from 0. Over seeds: "
    "Student's paired t-test. The first estimates variation between documents, the second variation between training "
    "runs; p is not corrected for the number of comparisons."
)

#: Reads a metric from the values of scores.json.
_Value = Callable[[dict[str, Any]], float | None]
_METRICS: dict[str, _Value] = {
    "test_f1": lambda scores: scores["test"]["micro"]["f1"],
    "test_precision": lambda scores: scores["test"]["micro"]["precision"],
    "test_recall": lambda scores: scores["test"]["micro"]["recall"],
    "test_macro_f1": lambda scores: scores["test"]["macro"]["f1"],
    "dev_f1": lambda scores: scores["dev"]["micro"]["f1"] if scores["dev"] else None,
    "steps": lambda scores: scores["figures"].get("steps"),
    "train_seconds": lambda scores: scores["figures"].get("train_seconds"),
    "train_cpu_seconds": lambda scores: scores["figures"].get("train_cpu_seconds"),
    "words_per_second": lambda scores: scores["figures"].get("words_per_second"),
    "words_per_cpu_second": lambda scores: scores["figures"].get("words_per_cpu_second"),
    "seconds": lambda scores: scores["seconds"],
    "cpu_seconds": lambda scores: scores["cpu_seconds"],
    "peak_bytes": lambda scores: scores["peak_bytes"],
}
_HEAD = [
    "training sentences",
    "configuration",
    "test F1 %",
    "min–max",
    "each seed",
    "precision %",
    "recall %",
    "macro F1 %",
    "dev F1 %",
    "steps",
    "training s",
    "CPU s",
    "words/s",
    "words/CPU s",
    "peak MB",
]


def write_results(job: ExperimentJob, runs: list[Run]) -> Path:
    """Write both files from all finished runs and return the path of results.md.

    Args:
        job: the experiment.
        runs: all runs of the experiment.
    """
    output = Path(job.output).absolute()
    done = [run for run in runs if run.done]
    results = {
        "format_version": FORMAT_VERSION,
        "conventions": _CONVENTIONS,
        "runs": len(runs),
        "runs_done": len(done),
        "groups": _groups(done),
        "comparisons": _comparisons(job, done),
    }
    publish_bytes(str(output / "results.json"), json.dumps(results, ensure_ascii=False, indent=2).encode() + b"\n")
    page = output / "results.md"
    publish_bytes(str(page), to_markdown(results, job.resamples).encode())
    return page


def _groups(runs: list[Run]) -> list[dict[str, Any]]:
    """Return each configuration at each size of each data set, with mean, error, range and seeds of every metric."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for run in runs:
        scores = json.loads((run.folder / SCORES).read_text(encoding="utf-8"))
        groups.setdefault((run.dataset, run.size, run.configuration), []).append(scores)
    return [
        {
            "dataset": dataset,
            "size": size,
            "configuration": configuration,
            "sentences": members[0]["sentences"],
            "run_as": sorted({(scores["runs_at_once"], scores["threads"]) for scores in members}),
            **{
                name: statistics_of({scores["seed"]: value(scores) for scores in members})
                for name, value in _METRICS.items()
            },
        }
        for (dataset, size, configuration), members in groups.items()
    ]


def statistics_of(by_seed: dict[int, float | None]) -> dict[str, Any]:
    """Return mean, standard error (None below two seeds), minimum and maximum over the seeds that have a value.

    Args:
        by_seed: value by seed.

    >>> round(statistics_of({1: 0.5, 2: 0.7})["standard_error"], 6)
    0.1
    """
    values = [value for value in by_seed.values() if value is not None]
    return {
        "mean": statistics.mean(values) if values else None,
        "standard_error": statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None,
        "min": min(values, default=None),
        "max": max(values, default=None),
        "seeds": {str(seed): value for seed, value in by_seed.items()},
    }


def _comparisons(job: ExperimentJob, done: list[Run]) -> list[dict[str, Any]]:
    """Compare the named pairs of configurations where they have seeds in common; only those seeds are used."""
    found = []
    for dataset, size in dict.fromkeys((run.dataset, run.size) for run in done):
        for pair in job.compare:
            sides = [
                {run.seed: run for run in done if (run.dataset, run.size, run.configuration) == (dataset, size, name)}
                for name in pair
            ]
            seeds = [seed for seed in sides[0] if seed in sides[1]]
            if not seeds:
                continue
            first, second = (np.stack([counts_of(side[seed]) for seed in seeds]) for side in sides)
            scores = [[_f1(side[seed]) for seed in seeds] for side in sides]
            found.append(
                {
                    "dataset": dataset,
                    "size": size,
                    "first": pair[0],
                    "second": pair[1],
                    "seeds": seeds,
                    "over_documents": over_documents(first, second, resamples=job.resamples).to_json(),
                    "over_seeds": over_seeds(*scores).to_json(),
                }
            )
    return found


def _f1(run: Run) -> float:
    return json.loads((run.folder / SCORES).read_text(encoding="utf-8"))["test"]["micro"]["f1"]


def to_markdown(results: dict[str, Any], resamples: int) -> str:
    """Return the page: a table per data set, then the comparisons.

    Args:
        results: values of results.json.
        resamples: number of bootstrap resamples.
    """
    lines = ["# Results", "", f"{results['runs_done']} of {results['runs']} runs are done.", ""]
    for dataset in dict.fromkeys(group["dataset"] for group in results["groups"]):
        groups = [group for group in results["groups"] if group["dataset"] == dataset]
        groups.sort(key=lambda group: group["sentences"]["train"])
        counts = groups[0]["sentences"]
        lines += [f"## {cell(dataset)}", "", f"Dev {counts['dev']:,} sentences, test {counts['test']:,}.", ""]
        lines += table(_HEAD, map(_row, groups), words=2)
        lines.append("")
    lines += [_CONVENTIONS, "", *_timing(results["groups"])]
    if results["comparisons"]:
        lines += ["## Differences", "", *_differences(results["comparisons"])]
        lines += ["", _HOW_COMPARED.format(resamples=resamples), ""]
    return "\n".join(lines)


def _row(group: dict[str, Any]) -> list[str]:
    f1 = group["test_f1"]
    return [
        f"{group['sentences']['train']:,}",
        cell(group["configuration"]),
        f"**{_mean(f1)}**",
        f"{100 * f1['min']:.2f}–{100 * f1['max']:.2f}",
        ", ".join(f"{seed}: {100 * value:.2f}" for seed, value in f1["seeds"].items()),
        *(_mean(group[name]) for name in ("test_precision", "test_recall", "test_macro_f1", "dev_f1")),
        _whole(group["steps"]),
        _whole(group["train_seconds"]),
        _whole(group["train_cpu_seconds"]),
        _whole(group["words_per_second"]),
        _whole(group["words_per_cpu_second"]),
        _whole(group["peak_bytes"], 1e6),
    ]


def _mean(values: dict[str, Any]) -> str:
    if values["mean"] is None:
        return ""
    error = values["standard_error"]
    return f"{100 * values['mean']:.2f}" + ("" if error is None else f" ± {100 * error:.2f}")


def _whole(values: dict[str, Any], unit: float = 1) -> str:
    return "" if values["mean"] is None else f"{values['mean'] / unit:,.0f}"


def _timing(groups: list[dict[str, Any]]) -> list[str]:
    kinds = sorted({kind for group in groups for kind in map(tuple, group["run_as"])})
    pace = "; ".join(f"{at_once} runs at a time with {threads} CPU threads each" for at_once, threads in kinds)
    if not pace:
        return []
    return [f"Times are means over seeds, with {pace}. CPU s is the CPU time of training over all threads.", ""]


def _differences(comparisons: list[dict[str, Any]]) -> list[str]:
    head = ["data set", "training sentences", "first", "second", "seeds", "difference", "95 %, documents", "p"]
    head += ["95 %, seeds", "p"]
    lines = [f"| {' | '.join(head)} |", "| :-- | --: | :-- | :-- | --: | --: | --: | --: | --: | --: |"]
    for each in comparisons:
        documents, seeds = each["over_documents"], each["over_seeds"]
        row = [cell(each["dataset"]), each["size"], cell(each["first"]), cell(each["second"]), str(len(each["seeds"]))]
        row += [f"**{100 * documents['difference']:+.2f}**", _interval(documents), _p(documents)]
        row += [_interval(seeds), _p(seeds)]
        lines.append(f"| {' | '.join(row)} |")
    return lines


def _interval(difference: dict[str, Any]) -> str:
    if difference["low"] is None:
        return ""
    return f"{100 * difference['low']:+.2f} to {100 * difference['high']:+.2f}"


def _p(difference: dict[str, Any]) -> str:
    return "" if difference["p"] is None else f"{difference['p']:.4f}"

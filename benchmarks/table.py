"""Results as Markdown tables."""

from collections.abc import Iterator
from statistics import median
from typing import Any

from benchmarks.contestants import PEER
from benchmarks.ratios import Spread, speedup, spread


def markdown(results: dict[str, Any]) -> str:
    """Return the tables of a result file.

    Args:
        results: values of the file.
    """
    parts = [_head(results)]
    parts += [_workload(workload) for workload in results["workloads"]]
    if results.get("growth"):
        parts.append(_growth(results["growth"]))
    if results.get("end_to_end"):
        parts.append(_end_to_end(results["end_to_end"]))
    return "\n\n".join(parts) + "\n"


def _head(results: dict[str, Any]) -> str:
    machine, options = results["machine"], results["options"]
    where = machine.get("gpu") or f"{machine['cpu']}, {machine['cores']} cores"
    changed = " with changes" if machine["changed_since_commit"] else ""
    lines = [
        f"{machine['date']}, {where}, {options['threads']} threads, {options['dtype']}, Python {machine['python']}, "
        f"commit {machine['commit']}{changed}."
    ]
    versions: dict[str, dict[str, str]] = {}
    for workload in results["workloads"]:
        for entry in workload["entries"].values():
            found = entry["versions"]
            versions["span_marker" if "span_marker" in found else "ours and transformers"] = found
    lines += [f"{who}: {', '.join(f'{k} {v}' for k, v in found.items())}." for who, found in versions.items()]
    model = results["model"]
    lines.append(
        f"Checkpoint: {model['layers']} layers of width {model['width']}, {model['labels']} labels, entity_max_length "
        f"{model['entity_max_length']}. Times are medians of {options['rounds']} rounds (least to greatest); ratios "
        "are medians of the ratios of a round."
    )
    return " ".join(lines)


def _workload(workload: dict[str, Any]) -> str:
    entries = workload["entries"]
    peer = entries[PEER]["seconds"]
    rows = []
    for name, entry in entries.items():
        floor = entry["floor"]
        scores = entry["scores"]
        rows.append(
            [
                name + "".join(f", {key} {value}" for key, value in entry["settings"].items()),
                _range(spread(entry["seconds"]), "{:.3g}"),
                f"{workload['sentences'] / median(entry['seconds']):.1f}",
                _range(speedup(entry["seconds"], peer), "{:.2f}×"),
                _range(speedup(entries[floor]["seconds"], entry["seconds"]), "{:.2f}×") if floor else "1×",
                _predicted(entry, entries[PEER]),
                _share(entry["predicted"]["kept"]) if entry["predicted"]["spans"] else "",
                _share(entry["predicted"]["useful"]),
                f"{scores['f1']:.1%}" if scores else "",
            ]
        )
    heads = [
        "",
        "seconds",
        "sentences/s",
        "times as fast as span_marker (4)",
        "time against text only",
        "as fast as span_marker (4), predicted",
        "spans with markers",
        "useful of computed tokens",
        "F1 of the sample",
    ]
    agreement = workload["agreement"]
    intro = (
        f"{workload['sentences']} sentences, {workload['words']:,} words, windows of {workload['max_tokens']} tokens; "
        f"{workload['left_out']} sentences of the source can't be put to every contestant and are left out. "
        f"span_marker and our exact form find the same {agreement['entities']} entities, scores within "
        f"{agreement['largest_difference']:.0e}."
    )
    return f"### {workload['name'].capitalize()}\n\n{intro}\n\n{_table(heads, rows)}"


def _predicted(entry: dict[str, Any], peer: dict[str, Any]) -> str:
    ours, theirs = entry["predicted"]["macs"], peer["predicted"]["macs"]
    return f"{theirs / ours:.1f}×" if ours and theirs else ""


def _growth(points: list[dict[str, Any]]) -> str:
    parts = ["### Growth", "Time and prediction for a word, as multiples of the first line of their group."]
    for axis, name in dict.fromkeys((point["axis"], point["name"]) for point in points):
        group = [point for point in points if (point["axis"], point["name"]) == (axis, name)]
        rows = []
        first_time, first_macs = _per_word(group[0])
        for point in group:
            seconds, macs = _per_word(point)
            rows.append(
                [
                    str(point["value"]),
                    f"{1e6 * seconds:.0f}",
                    f"{seconds / first_time:.2f}×",
                    f"{macs / first_macs:.2f}×",
                    f"{1e-6 * macs:.1f}",
                    f"{macs / seconds * 1e-9:.0f}",
                ]
            )
        heads = [axis, "µs a word", "measured", "predicted", "million MACs a word", "billion MACs/s"]
        parts += [f"{name}:", _table(heads, rows)]
    return "\n\n".join(parts)


def _per_word(point: dict[str, Any]) -> tuple[float, float]:
    return median(point["seconds"]) / point["words"], point["predicted"]["macs"] / point["words"]


def _end_to_end(runs: list[dict[str, Any]]) -> str:
    rows = [
        [
            run["name"],
            run["corpus"],
            f"{run['counts']['documents']:,}",
            f"{run['counts']['words']:,}",
            f"{run['seconds']:.1f}",
            f"{run['run_seconds']:.1f}",
            f"{run['model_seconds']:.1f}",
            f"{run['outside']:.1%}",
            f"{run['worker_peak_rss_bytes'] / 1e6:,.0f}",
        ]
        for run in runs
    ]
    heads = ["", "corpus", "documents", "words", "seconds", "of these in the run", "model", "outside the model", "MB"]
    return f"### `spanmarker tag`, end to end\n\n{_table(heads, rows)}"


def _range(values: Spread, form: str) -> str:
    return f"{form.format(values.median)} ({form.format(values.low)} to {form.format(values.high)})"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def _table(heads: list[str], rows: list[list[str]]) -> str:
    def lines() -> Iterator[str]:
        yield "| " + " | ".join(heads) + " |"
        yield "|" + " --- |" * len(heads)
        for row in rows:
            yield "| " + " | ".join(row) + " |"

    return "\n".join(lines())

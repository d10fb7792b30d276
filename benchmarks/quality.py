"""Train a grid of models and tabulate their F1: late pairing, the gate, context policies.

    python benchmarks/quality.py --encoder DIR --data DIR --output DIR [--device cuda] [--workers 12]

`--data` contains `wnut17/`, `ncbi_disease/`, `gum/` and `fewnerd_inter_train36/`, each with train.jsonl, dev.jsonl and
test.jsonl. Every run is a line of `runs.jsonl`; existing runs are not repeated, so the command can be interrupted and
resumed. Runs are executed in the order of `grid`, the most important first. On a CPU the whole grid takes days: it is
intended for a GPU shared by many small processes.
"""

import argparse
import json
import multiprocessing
import queue
import statistics
import time
from itertools import islice
from pathlib import Path
from typing import Any

SEEDS = (1, 2, 3)
#: Settings of each data set, chosen once and used for all configurations.
DATASETS: dict[str, dict[str, Any]] = {
    "wnut17": {"epochs": 5, "max_tokens": 128},
    "ncbi_disease": {"epochs": 5, "max_tokens": 256},
    "fewnerd_inter_train36": {"epochs": 2, "max_tokens": 128, "sentences": 10_000},
    "gum": {"epochs": 5, "max_tokens": 256},
}
COMMON = {"learning_rate": 3e-4, "batch_size": 32, "entity_max_length": 8}
PAIRING = (None, 1, 2, 0)
THREE = ("wnut17", "ncbi_disease", "fewnerd_inter_train36")
#: Windows per step, so that a step has about 32 sentences under each policy. (The runs with single sentences of
#: ncbi_disease are all_spans.ncbi_disease.pairNone.)
CONTEXTS = {
    ("ncbi_disease", "block"): 8,
    ("ncbi_disease", "document"): 12,
    ("gum", "block"): 4,
    ("gum", "document"): 32,
    ("gum", "sentence"): 32,
}


def grid() -> list[dict[str, Any]]:
    """Return the runs: {"name", "group", "dataset", "settings"}."""
    runs = []

    def add(group: str, dataset: str, label: str, seed: int, **settings: Any) -> None:
        values = {**COMMON, **DATASETS[dataset], **settings, "seed": seed}
        runs.append(
            {"name": f"{group}.{dataset}.{label}.{seed}", "group": group, "dataset": dataset, "settings": values}
        )

    for seed in SEEDS:
        for pair_layers in PAIRING:
            for gate in (False, True):
                for dataset in THREE:
                    group = "gate" if gate else "all_spans"
                    add(group, dataset, f"pair{pair_layers}", seed, gate=gate, pair_layers=pair_layers)
        for (dataset, context), batch_size in CONTEXTS.items():
            add("context", dataset, context, seed, context=context, batch_size=batch_size)
    return runs


def worker(tasks: Any, results: Any, arguments: argparse.Namespace) -> None:
    """Execute runs until none are left or the time is over.

    Args:
        tasks: queue of runs.
        results: queue for the results.
        arguments: the parsed command line.
    """
    import torch

    from spanmarker_core import load
    from spanmarker_core.data import read_annotated
    from spanmarker_core.evaluation.evaluate import evaluate
    from spanmarker_core.training import TrainingSettings, train

    torch.set_num_threads(arguments.threads)
    torch.set_float32_matmul_precision("high")
    while time.time() < arguments.until:
        try:
            run = tasks.get_nowait()
        except queue.Empty:
            return
        settings = dict(run["settings"])
        n_sentences = settings.pop("sentences", None)
        parts = {}
        for part in ("train", "dev", "test"):
            sentences = read_annotated(arguments.data / run["dataset"] / f"{part}.jsonl")
            parts[part] = list(islice(sentences, n_sentences) if part == "train" else sentences)
        folder = arguments.output / "models" / run["name"]
        try:
            result = train(
                parts["train"],
                parts["dev"],
                arguments.encoder,
                folder,
                TrainingSettings(**settings, weight_dtype="float16", device=arguments.device),
                test_sentences=parts["test"],
                log=lambda line: None,
            )
            config = json.loads((folder / "config.json").read_text())
            facts = config["facts"]
            figures = {name: facts[name] for name in facts if name.startswith(("dev_", "test_"))}
            figures |= {"steps": result.steps, "seconds": result.seconds, "gate": config["gate"]}
            if config["gate"]:
                ungated = evaluate(load(folder, arguments.device, gate="off"), parts["test"])
                figures["test_f1_gate_off"] = ungated.micro.f1
            results.put({**run, **figures})
        except Exception as error:
            results.put({**run, "error": f"{type(error).__name__}: {error}"})


def summary(lines: list[dict[str, Any]]) -> str:
    """Return mean ± standard error of test F1 of each configuration as a Markdown table.

    Args:
        lines: the lines of `runs.jsonl`.
    """
    groups: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        if "error" not in line:
            groups.setdefault(line["name"].rpartition(".")[0], []).append(line)
    rows = ["| runs | seeds | test F1 | dev F1 | training s | kept |", "| --- | --: | --- | --- | --: | --: |"]
    for name, members in sorted(groups.items()):
        kept = [
            next(p["kept"] for p in m["gate"]["curve"] if p["threshold"] == m["gate"]["threshold"])
            for m in members
            if m["gate"]
        ]
        rows.append(
            f"| {name} | {len(members)} | {_mean([m['test_f1'] for m in members])} | "
            f"{_mean([m['dev_f1'] for m in members])} | {statistics.mean(m['seconds'] for m in members):.0f} | "
            f"{f'{statistics.mean(kept):.1%}' if kept else ''} |"
        )
    return "\n".join(rows)


def _mean(scores: list[float]) -> str:
    error = statistics.stdev(scores) / len(scores) ** 0.5 if len(scores) > 1 else float("nan")
    return f"{100 * statistics.mean(scores):.2f} ± {100 * error:.2f}"


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("--encoder", "--data", "--output"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1, help="training processes at once")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of each")
    parser.add_argument("--only", default="", help="runs whose name starts so")
    parser.add_argument("--runs", type=Path, help="a JSON list of runs in place of the grid")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no run after so long")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    known = arguments.output / "runs.jsonl"
    lines = [json.loads(line) for line in known.read_text().splitlines()] if known.exists() else []
    done = {line["name"] for line in lines if "error" not in line}
    runs = json.loads(arguments.runs.read_text()) if arguments.runs else grid()
    runs = [run for run in runs if run["name"].startswith(arguments.only) and run["name"] not in done]
    arguments.until = time.time() + arguments.seconds
    context = multiprocessing.get_context("spawn")
    tasks, results = context.Queue(), context.Queue()
    for run in runs:
        tasks.put(run)
    workers = [context.Process(target=worker, args=(tasks, results, arguments)) for _ in range(arguments.workers)]
    for process in workers:
        process.start()
    while any(process.is_alive() for process in workers) or not results.empty():
        try:
            line = results.get(timeout=1)
        except queue.Empty:
            continue
        lines.append(line)
        with open(known, "a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")
        print(f"{line['name']}: {line.get('error') or line['test_f1']}", flush=True)
    print(summary(lines))


if __name__ == "__main__":
    main()

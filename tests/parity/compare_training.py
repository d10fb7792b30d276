"""Train the same model with `span_marker` and with this library, and compare F1 on held-out sentences.

    python tests/parity/compare_training.py --encoder DIR --train T --dev D --test X --output DIR

Same encoder, sentences, epochs, batch size, learning rate, schedule and seeds; one metric for both: exact
spans and labels over all gold entities. Steps differ a little: the library spreads a long sentence over
several samples. `span_marker` runs in an environment of its own (see
span_marker_environment.py). A seed whose predictions are there already isn't trained again. Prints a
Markdown table: each seed, mean and standard error.
"""

import argparse
import json
import os
import statistics
import subprocess
import time
from itertools import islice
from pathlib import Path

from span_marker_environment import python_with_span_marker

from spanmarker_core import load
from spanmarker_core.data import Sentence, Span, read_annotated
from spanmarker_core.evaluation.evaluate import evaluate
from spanmarker_core.evaluation.scores.metrics import SpanScorer
from spanmarker_core.training import TrainingSettings, train

LIMITS = {"entity_max_length": 6, "max_tokens": 128}
SCHEDULE = {"learning_rate": 3e-4, "batch_size": 4, "epochs": 1}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("--encoder", "--train", "--dev", "--test", "--output"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--python", type=Path, help="an interpreter that has span_marker 1.8.1")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--sentences", type=int, default=1200, help="train on the first so many that hold an entity")
    arguments = parser.parse_args()
    test = list(read_annotated(arguments.test))
    arguments.output.mkdir(parents=True, exist_ok=True)
    arguments.train = write_training_set(arguments)
    theirs, ours = [], []
    for seed in arguments.seeds:
        theirs.append(run_span_marker(arguments, test, seed))
        ours.append(run_ours(arguments, test, seed))
        print(f"seed {seed}: span_marker {theirs[-1]}, this library {ours[-1]}", flush=True)
    for name, runs in (("span_marker 1.8.1", theirs), ("this library", ours)):
        scores = [run["f1"] for run in runs]
        error = statistics.stdev(scores) / len(scores) ** 0.5 if len(scores) > 1 else float("nan")
        each = ", ".join(f"{score:.2%}" for score in scores)
        print(f"| {name} | {statistics.mean(scores):.2%} ± {error:.2%} | {each} | {runs[0]['steps']} |")


def write_training_set(arguments: argparse.Namespace) -> Path:
    """Write the sentences that both train on: the first ones that hold an entity, so that a short run learns."""
    path = arguments.output / "train.jsonl"
    with open(arguments.train, encoding="utf-8") as lines:
        path.write_text("".join(islice((line for line in lines if json.loads(line)["entities"]), arguments.sentences)))
    return path


def run_span_marker(arguments: argparse.Namespace, test: list[Sentence], seed: int) -> dict:
    """Train and predict with span_marker in its own process; score here."""
    folder = arguments.output / f"span_marker-{seed}"
    if not (folder / "figures.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = [arguments.python or python_with_span_marker(), Path(__file__).with_name("train_span_marker.py")]
        for name in ("encoder", "train", "test"):
            command += [f"--{name}", getattr(arguments, name)]
        command += ["--output", folder, "--seed", seed, "--sentences", arguments.sentences]
        command += ["--learning-rate", SCHEDULE["learning_rate"], "--batch-size", SCHEDULE["batch_size"]]
        command += ["--epochs", SCHEDULE["epochs"], "--entity-max-length", LIMITS["entity_max_length"]]
        subprocess.run([str(part) for part in command], check=True, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    scorer = SpanScorer()
    with open(folder / "predictions.jsonl", encoding="utf-8") as lines:
        for sentence, line in zip(test, lines, strict=True):
            record = json.loads(line)
            assert (record["document_id"], record["sentence_id"]) == (sentence.document_id, sentence.sentence_id)
            scorer.add(sentence.entities, [Span(e["start"], e["end"], e["label"]) for e in record["entities"]])
    figures = json.loads((folder / "figures.json").read_text())
    return {"f1": scorer.result().micro.f1, **figures}


def run_ours(arguments: argparse.Namespace, test: list[Sentence], seed: int) -> dict:
    """Train with this library; no epoch is chosen on dev, since there is only one."""
    folder = arguments.output / f"ours-{seed}"
    known = arguments.output / f"ours-{seed}.json"
    if known.exists():
        return json.loads(known.read_text())
    result = train(
        list(read_annotated(arguments.train)),
        list(islice(read_annotated(arguments.dev), 100)),
        arguments.encoder,
        folder,
        TrainingSettings(**LIMITS, **SCHEDULE, seed=seed, device="cpu"),
        log=lambda line: None,
    )
    model = load(folder)
    began = time.monotonic()
    scores = evaluate(model, test).micro
    seconds = time.monotonic() - began
    figures = {"f1": scores.f1, "steps": result.steps, "train_seconds": result.seconds, "test_seconds": seconds}
    known.write_text(json.dumps(figures))
    return figures


if __name__ == "__main__":
    main()

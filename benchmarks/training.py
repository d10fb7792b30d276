"""Compare the time of training steps: all spans, late pairing, the joint gate, and both, interleaved.

    python -m benchmarks.training --encoder DIR --train infra/models/bundled/data/train.jsonl

All use the same sentences. A step includes the preparation of batches, the forward and backward pass and AdamW, but no
validation. Prints the seconds per step, and the ratio to training on all spans within a round.
"""

import argparse
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from statistics import median

import numpy as np
import torch

from benchmarks.ratios import speedup, spread
from spanmarker_core.bundle.config import packer_of
from spanmarker_core.data import read_annotated
from spanmarker_core.training.collate import Examples
from spanmarker_core.training.dataset import SentenceWindows
from spanmarker_core.training.initialise import new_model
from spanmarker_core.training.loss import SpanLoss
from spanmarker_core.training.settings import TrainingSettings

FORMS = {
    "all spans": {},
    "late pairing, top layer": {"pair_layers": 1},
    "joint gate": {"gate": True},
    "joint gate, late pairing": {"gate": True, "pair_layers": 1},
}


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--encoder", type=Path, required=True)
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=6, help="steps of each form in a round")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    sentences = list(islice(read_annotated(arguments.train), arguments.steps * arguments.batch_size))
    labels = sorted({entity.label for sentence in sentences for entity in sentence.entities})
    shared = TrainingSettings(batch_size=arguments.batch_size, max_tokens=256)
    forms = {
        name: stepper(sentences, labels, arguments, shared.replace(**settings)) for name, settings in FORMS.items()
    }
    seconds: dict[str, list[float]] = {name: [] for name in forms}
    for number in range(arguments.rounds + 1):  # the first round is a warm-up
        for name, steps in forms.items():
            began = time.perf_counter()
            steps()
            if number:
                seconds[name].append((time.perf_counter() - began) / arguments.steps)
    everything = seconds["all spans"]
    print("| trained on | seconds a step | speed against all spans |\n| --- | --- | --- |")
    for name, times in seconds.items():
        ratio, step = speedup(times, everything), spread(times)
        print(
            f"| {name} | {median(times):.2f} ({step.low:.2f} to {step.high:.2f}) | "
            f"{ratio.median:.2f}× ({ratio.low:.2f} to {ratio.high:.2f}) |"
        )


def stepper(sentences: list, labels: list, arguments: argparse.Namespace, settings: TrainingSettings) -> Callable:
    """Return a function that executes the steps over all sentences, on its own model.

    Args:
        sentences: the training sentences.
        labels: the labels of the model.
        arguments: the parsed command line.
        settings: the training settings.
    """
    torch.manual_seed(0)
    config, network, tokenizer = new_model(arguments.encoder, labels, settings)
    source = SentenceWindows(sentences, packer_of(config, tokenizer), config.context, labels)
    examples = Examples(source, config.entity_max_length, settings.gate_share if settings.gate else None)
    loss = SpanLoss(network, settings.gate_weight).to(arguments.device).train()
    optimizer = torch.optim.AdamW(loss.parameters(), lr=1e-5)

    def steps() -> None:
        for start in range(0, len(examples), settings.batch_size):
            batch = examples.batch(np.arange(start, min(start + settings.batch_size, len(examples))))
            targets = {name: batch[name].to(arguments.device) for name in ("labels", "gate", "gate_mask")}
            loss(batch["batch"], **targets)["loss"].backward()
            optimizer.step()
            optimizer.zero_grad()
        if arguments.device != "cpu":
            torch.cuda.synchronize()

    return steps


if __name__ == "__main__":
    main()

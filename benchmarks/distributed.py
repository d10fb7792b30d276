"""Compare the speed of training with one process and with two, one thread each, on the same steps, interleaved.

    python -m benchmarks.distributed --encoder DIR --train infra/models/bundled/data/train.jsonl

Prints the words per second from the second to the last step of a run, and the ratio of two processes to one within a
round.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import torch
from transformers import TrainerCallback

from benchmarks.ratios import speedup, spread
from spanmarker_core.data import read_annotated
from spanmarker_core.training import TrainingSettings, train
from spanmarker_core.training.distributed import leave, rank


class Clock(TrainerCallback):
    """Records the time at the end of each step."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Record the time.

        Args:
            args: unused.
            state: unused.
            control: unused.
            kwargs: unused.
        """
        self.times.append(time.perf_counter())


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--encoder", type=Path, required=True)
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=12, help="steps of a run; the first is not timed")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--gate", action="store_true")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments)
        return
    rates: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(arguments.rounds):
        for processes, found in rates.items():
            found.append(words_a_second(processes))
    one, two = spread(rates[1]), spread(rates[2])
    # `speedup` expects seconds, here per word.
    ratio = speedup([1 / rate for rate in rates[2]], [1 / rate for rate in rates[1]])
    print("| processes | words per second | ratio |\n| --- | --- | --- |")
    print(f"| 1 | {median(rates[1]):,.0f} ({one.low:,.0f} to {one.high:,.0f}) | |")
    print(
        f"| 2 | {median(rates[2]):,.0f} ({two.low:,.0f} to {two.high:,.0f}) | "
        f"{ratio.median:.2f}× ({ratio.low:.2f} to {ratio.high:.2f}) |"
    )


def words_a_second(processes: int) -> float:
    """Train once in new processes with the arguments of this program, and return the words per second.

    Args:
        processes: number of processes.
    """
    launch = ["torchrun", "--standalone", "--nproc-per-node", str(processes)]
    launch[0] = str(Path(sys.executable).with_name("torchrun"))
    with tempfile.TemporaryDirectory() as folder:
        command = [*launch, "-m", "benchmarks.distributed", *sys.argv[1:], "--worker", folder]
        subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL)
        return float(json.loads((Path(folder) / "rate.json").read_text()))


def work(arguments: argparse.Namespace) -> None:
    """Run one process of a training; the first process prints the words per second.

    Args:
        arguments: the parsed command line.
    """
    torch.set_num_threads(1)
    sentences = list(islice(read_annotated(arguments.train), arguments.steps * arguments.batch_size))
    dev = [sentence for sentence in sentences if sentence.entities][:1]
    clock = Clock()
    settings = TrainingSettings(batch_size=arguments.batch_size, epochs=1, gate=arguments.gate, device="cpu")
    train(sentences, dev, arguments.encoder, arguments.worker / "bundle", settings, callbacks=[clock], log=str)
    words = sum(len(sentence.words) for sentence in sentences) * (len(clock.times) - 1) / len(clock.times)
    if rank() == 0:
        (arguments.worker / "rate.json").write_text(json.dumps(words / (clock.times[-1] - clock.times[0])))
    leave()


if __name__ == "__main__":
    main()

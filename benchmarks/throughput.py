"""Measure the sentences per second of bundles on one device: the model, span listing and decoding, without packing.

    python -m benchmarks.throughput --data test.jsonl --device cuda --dtype bfloat16 full/:off gated/:on

For bundles with a gate, the text pass alone is also measured (with a gate that rejects all spans). Use this for a quick
measurement on a GPU, where the peers of `make bench` take minutes.
"""

import argparse
import time
from pathlib import Path
from statistics import median

import torch

from spanmarker_core import load
from spanmarker_core.data import read_annotated
from spanmarker_core.data.windows import pack_annotated
from spanmarker_core.inference.tagger import Tagger
from spanmarker_core.windows.packer import Windows


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bundles", nargs="+", help="PATH:GATE")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--repeat", type=int, default=4, help="how often the data stand in the input")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    arguments = parser.parse_args()
    sentences = list(read_annotated(arguments.data)) * arguments.repeat
    for name in arguments.bundles:
        path, _, gate = name.rpartition(":")
        model = load(path, arguments.device, arguments.dtype, gate)
        windows = pack_annotated(sentences, model.packer, model.config.context)
        found = [f"{name}: {len(sentences) / seconds(model, windows, arguments.rounds):,.0f} sentences/s"]
        if model.config.gate is not None:
            model.gate_threshold = 1.1
            found.append(f"text alone {len(sentences) / seconds(model, windows, arguments.rounds):,.0f}")
        print(", ".join(found), flush=True)


def seconds(model: Tagger, windows: Windows, rounds: int) -> float:
    """Return the median time of scoring in seconds, after a warm-up round.

    Args:
        model: the tagger.
        windows: the windows to score.
        rounds: number of timed rounds.
    """
    taken = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        model.score(windows)
        if model.device.type == "cuda":
            torch.cuda.synchronize()
        taken.append(time.perf_counter() - began)
    return median(taken[1:])


if __name__ == "__main__":
    main()

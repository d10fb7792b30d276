"""What several contestants need. Imports nothing of ours, nor of one version of transformers."""

import json
import time
from contextlib import nullcontext

import torch


def read(path):
    """Read a workload file."""
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def autocast(options):
    """The context that runs a float32 model in the wanted number format."""
    if options["dtype"] == "float32":
        return nullcontext()
    return torch.autocast(torch.device(options["device"]).type, getattr(torch, options["dtype"]))


def fastest(candidates, run, tries=2):
    """Return the candidate for which `run(candidate)` takes the least time, of `tries` each."""
    seconds = {}
    for _ in range(tries):
        for candidate in candidates:
            began = time.perf_counter()
            run(candidate)
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            seconds[candidate] = min(seconds.get(candidate, float("inf")), time.perf_counter() - began)
    return min(seconds, key=seconds.get)


def sample(items, count):
    """Take about `count` items spread evenly, to tune on."""
    return items[:: max(1, len(items) // count)]

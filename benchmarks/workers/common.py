"""Helpers shared by contestants. Imports neither this library nor features of a single version of transformers."""

import json
import time
from contextlib import nullcontext

import torch


def read(path):
    """Return the contents of a workload file.

    Args:
        path: path of the file.
    """
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def autocast(options):
    """Return the context manager that runs a float32 model in the requested number format.

    Args:
        options: options of the worker; `device` and `dtype` are used.
    """
    if options["dtype"] == "float32":
        return nullcontext()
    return torch.autocast(torch.device(options["device"]).type, getattr(torch, options["dtype"]))


def fastest(candidates, run, tries=2):
    """Return the candidate with the smallest time of `run(candidate)`.

    Args:
        candidates: the candidates.
        run: function to time.
        tries: number of runs per candidate; the best counts.
    """
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
    """Return about `count` evenly spaced items, for tuning.

    Args:
        items: a list.
        count: approximate number of items.
    """
    return items[:: max(1, len(items) // count)]

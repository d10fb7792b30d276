"""Contestant: only the encoder's forward pass over the tokens of the windows, the lower bound for models based on it.

The tensors are ready: no tokenisation and no decoding. Batches have windows of similar length, padded to the longest.
"""

from importlib.metadata import version
from itertools import product

import torch
from common import autocast, fastest, read
from transformers import AutoModel

BATCH_SIZES = (4, 8, 16, 32)
ATTENTION = ("eager", "sdpa")


class Contestant:
    """An encoder with transformers' own attention, the faster of two kinds.

    Args:
        options: options of the worker process.
    """

    def __init__(self, options) -> None:
        self.options = options
        self.models = {
            kind: AutoModel.from_pretrained(options["path"], attn_implementation=kind).to(options["device"]).eval()
            for kind in ATTENTION
        }
        self.inputs = {}
        self.batches = {}

    def prepare(self, key, path, tokens):
        """Read a workload.

        Args:
            key: key of the workload.
            path: path of the workload file.
            tokens: name of the workload's field with the token ids.
        """
        self.inputs[key] = sorted(read(path)[tokens], key=len)

    def tune(self, key):
        # Long windows are few and the text pass is fast: use all of them, so that tuning sees the actual batches.
        """Choose the fastest settings and return them.

        Args:
            key: key of the workload.
        """
        windows = self.inputs[key]
        made = {size: self._batches(windows, size) for size in BATCH_SIZES}
        kind, size = fastest(list(product(ATTENTION, BATCH_SIZES)), lambda both: self._forward(both[0], made[both[1]]))
        self.batches[key] = kind, made[size]
        return {"attention": kind, "batch size": size}

    def run(self, key):
        """Run the encoder over all windows.

        Args:
            key: key of the workload.
        """
        self._forward(*self.batches[key])

    def _batches(self, windows, size):
        batches = []
        for start in range(0, len(windows), size):
            part = windows[start : start + size]
            longest = max(map(len, part))
            ids = torch.tensor([window + [0] * (longest - len(window)) for window in part])
            mask = torch.tensor([[1] * len(window) + [0] * (longest - len(window)) for window in part])
            batches.append((ids.to(self.options["device"]), mask.to(self.options["device"])))
        return batches

    def _forward(self, kind, batches):
        with autocast(self.options), torch.inference_mode():
            for ids, mask in batches:
                self.models[kind](input_ids=ids, attention_mask=mask)

    def versions(self):
        """Return the versions of the libraries in use."""
        return {"transformers": version("transformers")}

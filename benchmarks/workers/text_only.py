"""The encoder's forward pass over the windows' tokens and nothing else: the floor of anything built on it.

Ready tensors: no tokenising, no decoding. Batches of like length, padded to their longest.
"""

from importlib.metadata import version
from itertools import product

import torch
from common import autocast, fastest, read
from transformers import AutoModel

BATCH_SIZES = (4, 8, 16, 32)
ATTENTION = ("eager", "sdpa")


class Contestant:
    """An encoder with transformers' own attention, the faster kind of two."""

    def __init__(self, options) -> None:
        self.options = options
        self.models = {
            kind: AutoModel.from_pretrained(options["path"], attn_implementation=kind).to(options["device"]).eval()
            for kind in ATTENTION
        }
        self.inputs = {}
        self.batches = {}

    def prepare(self, key, path, tokens):
        self.inputs[key] = sorted(read(path)[tokens], key=len)

    def tune(self, key):
        # Long windows are few and the text pass is cheap: all of them, so that batches are what they will be.
        windows = self.inputs[key]
        made = {size: self._batches(windows, size) for size in BATCH_SIZES}
        kind, size = fastest(list(product(ATTENTION, BATCH_SIZES)), lambda both: self._forward(both[0], made[both[1]]))
        self.batches[key] = kind, made[size]
        return {"attention": kind, "batch size": size}

    def run(self, key):
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
        return {"transformers": version("transformers")}

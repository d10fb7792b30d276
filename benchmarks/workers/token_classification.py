"""transformers' token-classification pipeline over the same encoder.

Its head is random, with a bias for one label: what it finds means nothing, and the least is spent on writing it up.
"""

from importlib.metadata import version

import torch
from common import autocast, fastest, read, sample
from transformers import AutoModelForTokenClassification, AutoTokenizer, pipeline

BATCH_SIZES = (1, 4, 8, 16, 32)


class Contestant:
    """The pipeline, texts in and entity groups out."""

    def __init__(self, options) -> None:
        self.options = options
        model = AutoModelForTokenClassification.from_pretrained(options["path"], num_labels=options["labels"])
        with torch.no_grad():
            model.classifier.bias[0] = 100.0
        model.config.id2label[0] = "O"
        self.pipeline = pipeline(
            "token-classification",
            model=model.eval(),
            tokenizer=AutoTokenizer.from_pretrained(options["path"]),
            device=torch.device(options["device"]),
            aggregation_strategy="simple",
        )
        self.inputs = {}

    def prepare(self, key, path):
        self.inputs[key] = read(path)["texts"], BATCH_SIZES[0]

    def tune(self, key):
        texts, _ = self.inputs[key]
        part = sample(texts, 64)
        size = fastest(BATCH_SIZES, lambda size: self._predict(part, size))
        self.inputs[key] = texts, size
        return {"batch size": size}

    def run(self, key):
        self._predict(*self.inputs[key])

    def _predict(self, texts, size):
        with autocast(self.options), torch.inference_mode():
            return self.pipeline(texts, batch_size=size)

    def versions(self):
        return {"transformers": version("transformers")}

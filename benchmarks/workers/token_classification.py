"""Contestant: transformers' token-classification pipeline over the same encoder.

Its head is random, with a bias towards one label: the entities are meaningless, and as little time as possible is spent
on formatting them.
"""

from importlib.metadata import version

import torch
from common import autocast, fastest, read, sample
from transformers import AutoModelForTokenClassification, AutoTokenizer, pipeline

BATCH_SIZES = (1, 4, 8, 16, 32)


class Contestant:
    """The pipeline, from texts to entity groups.

    Args:
        options: options of the worker process.
    """

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
        """Read a workload.

        Args:
            key: key of the workload.
            path: path of the workload file.
        """
        self.inputs[key] = read(path)["texts"], BATCH_SIZES[0]

    def tune(self, key):
        """Choose the fastest batch size and return it.

        Args:
            key: key of the workload.
        """
        texts, _ = self.inputs[key]
        part = sample(texts, 64)
        size = fastest(BATCH_SIZES, lambda size: self._predict(part, size))
        self.inputs[key] = texts, size
        return {"batch size": size}

    def run(self, key):
        """Run the pipeline over all texts.

        Args:
            key: key of the workload.
        """
        self._predict(*self.inputs[key])

    def _predict(self, texts, size):
        with autocast(self.options), torch.inference_mode():
            return self.pipeline(texts, batch_size=size)

    def versions(self):
        """Return the versions of the libraries in use."""
        return {"transformers": version("transformers")}

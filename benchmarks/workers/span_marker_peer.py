"""Contestant: the `span_marker` library, in its own environment."""

import logging
from importlib.metadata import version

import torch
from common import autocast, fastest, read, sample
from datasets import Dataset
from span_marker import SpanMarkerModel

BATCH_SIZES = (1, 4, 8, 16)


class Contestant:
    """A checkpoint in the format of the library.

    Args:
        options: options of the worker process.
    """

    def __init__(self, options) -> None:
        logging.getLogger("span_marker").setLevel(logging.ERROR)  # It warns about context at every call.
        self.options = options
        self.model = SpanMarkerModel.from_pretrained(options["path"]).to(options["device"]).eval()
        self.inputs = {}

    def prepare(self, key, path, context, batch_size=None):
        """Read a workload.

        Args:
            key: key of the workload.
            path: path of the workload file.
            context: "sentence" or "document".
            batch_size: sentences per batch; None: chosen by `tune`.
        """
        sentences = read(path)["sentences"]
        columns = ("tokens", "document_id", "sentence_id") if context == "document" else ("tokens",)
        self.inputs[key] = {name: [sentence[name] for sentence in sentences] for name in columns}, batch_size

    def tune(self, key):
        """Choose the fastest batch size and return it.

        Args:
            key: key of the workload.
        """
        columns, batch_size = self.inputs[key]
        if batch_size is not None:
            return {}
        if "document_id" in columns:  # the first sentences, because context needs neighbours
            part = {name: values[:16] for name, values in columns.items()}
        else:
            part = {name: sample(values, 16) for name, values in columns.items()}
        batch_size = fastest(BATCH_SIZES, lambda size: self._predict(part, size), tries=1)
        self.inputs[key] = columns, batch_size
        return {"batch size": batch_size}

    def run(self, key):
        """Return a list of entities [start, end, label, score] per sentence.

        Args:
            key: key of the workload.
        """
        found = self._predict(*self.inputs[key])
        return [
            [[e["word_start_index"], e["word_end_index"], e["label"], e["score"]] for e in entities]
            for entities in found
        ]

    def _predict(self, columns, batch_size):
        with autocast(self.options), torch.inference_mode():
            return self.model.predict(Dataset.from_dict(columns), batch_size=batch_size)

    def versions(self):
        """Return the versions of the libraries in use."""
        return {name: version(name) for name in ("transformers", "span_marker")}

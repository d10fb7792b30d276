"""Contestant: this library, from words to entities."""

from importlib.metadata import version

import numpy as np
from common import read

from spanmarker_core import load


class Contestant:
    """A bundle, loaded with or without its gate.

    Args:
        options: options of the worker process.
    """

    def __init__(self, options) -> None:
        self.tagger = load(options["path"], device=options["device"], dtype=options["dtype"], gate=options["gate"])
        self.inputs = {}

    def prepare(self, key, path, context):
        """Read a workload.

        Args:
            key: key of the workload.
            path: path of the workload file.
            context: "sentence" or "document".
        """
        sentences = read(path)["sentences"]
        arguments = {"context": context}
        if context != "sentence":
            arguments["document_ids"] = [sentence["document_id"] for sentence in sentences]
            arguments["sentence_ids"] = [sentence["sentence_id"] for sentence in sentences]
        self.inputs[key] = [sentence["tokens"] for sentence in sentences], arguments

    def tune(self, key):
        """Run once as a warm-up; there are no settings to choose.

        Args:
            key: key of the workload.
        """
        self.run(key)
        return {}

    def run(self, key):
        """Return a list of entities [start, end, label, score] per sentence.

        Args:
            key: key of the workload.
        """
        words, arguments = self.inputs[key]
        found = self.tagger.tag_words(words, **arguments)
        return [[[e.word_start, e.word_end, e.label, e.score] for e in entities] for entities in found]

    def count(self, key):
        """Return the numbers of candidate spans, of spans with markers, and of the words at which those start and end.

        Args:
            key: key of the workload.
        """
        counts = {"candidates": 0, "spans": 0, "words": 0}
        score_batches = self.tagger.score_batches

        def counted(windows):
            for scored in score_batches(windows):
                counts["candidates"] += scored.n_candidates
                counts["spans"] += len(scored.spans)
                counts["words"] += len(np.unique(scored.spans.first_word)) + len(np.unique(scored.spans.last_word))
                yield scored

        self.tagger.score_batches = counted
        self.run(key)
        self.tagger.score_batches = score_batches
        return counts

    def versions(self):
        """Return the versions of the libraries in use."""
        return {"transformers": version("transformers")}

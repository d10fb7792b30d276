"""This library: words in, entities out."""

from importlib.metadata import version

import numpy as np
from common import read

from spanmarker_core import load


class Contestant:
    """A bundle, loaded with a gate or without."""

    def __init__(self, options) -> None:
        self.tagger = load(options["path"], device=options["device"], dtype=options["dtype"], gate=options["gate"])
        self.inputs = {}

    def prepare(self, key, path, context):
        sentences = read(path)["sentences"]
        arguments = {"context": context}
        if context != "sentence":
            arguments["document_ids"] = [sentence["document_id"] for sentence in sentences]
            arguments["sentence_ids"] = [sentence["sentence_id"] for sentence in sentences]
        self.inputs[key] = [sentence["tokens"] for sentence in sentences], arguments

    def tune(self, key):
        self.run(key)
        return {}

    def run(self, key):
        words, arguments = self.inputs[key]
        found = self.tagger.tag_words(words, **arguments)
        return [[[e.word_start, e.word_end, e.label, e.score] for e in entities] for entities in found]

    def count(self, key):
        """Count candidate spans, those that got markers, and the words that these start and end at."""
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
        return {"transformers": version("transformers")}

"""Growth of time with sentence length, entity_max_length and document length, compared with the cost model."""

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.contestants import Bundle, Entry, limited
from benchmarks.predict import predict
from benchmarks.rounds import Pool
from benchmarks.workloads import (
    Sentence,
    Workload,
    build,
    by_document,
    evenly,
    fitting_of,
    packer_with,
    read_jsonl,
    speeches,
)
from spanmarker_core.windows.packer import CONTEXT_POLICIES

SENTENCE_WORDS = (8, 16, 32, 64, 128)
ENTITY_MAX_LENGTHS = (4, 6, 8, 12)
DOCUMENT_SENTENCES = (8, 16, 32, 64)
REPEATS = 3


def grow(
    bundles: list[Bundle], sizes: dict[str, int], words: int, work: Path, run: dict[str, Any], pool: Pool, say: Callable
) -> list[dict[str, Any]]:
    """Time bundles along three axes.

    Args:
        bundles: the bundles; a bundle with and without its gate counts as two.
        sizes: maximum tokens per window, for "sentence" and for "document".
        words: approximate number of words per sample.
        work: folder for bundles with other limits and for workloads.
        run: `threads`, `device`, `dtype`.
        pool: worker processes.
        say: called with lines about progress.

    Returns:
        One dict per point: `axis`, `value`, `name`, `words`, `seconds` (of each repetition), `counted`, `predicted`.
    """
    points = []
    model = bundles[0].path
    limits: dict[str, int] = {}
    for axis, value, workload, context in _points(model, sizes, words):
        before, limits = limits, {"max_tokens": workload.max_tokens}
        if axis == "entity_max_length":
            limits["entity_max_length"] = value
        if limits != before:
            pool.close()
        for bundle in bundles:
            path = limited(bundle.path, work, **limits)
            entry = Entry(
                bundle.name,
                "ours",
                {**run, "path": str(path), "gate": bundle.gate},
                {"context": context},
                model=context,
            )
            worker = pool.worker(entry)
            key = f"{axis} {value}"
            file = workload.write(work / "growth.json")
            worker.ask("prepare", key=key, path=str(file), **entry.settings)
            counted = worker.ask("first", key=key)
            counted.pop("entities")
            seconds = [worker.ask("seconds", key=key) for _ in range(REPEATS)]
            points.append(
                {
                    "axis": axis,
                    "value": value,
                    "name": bundle.name,
                    "words": workload.n_words,
                    "seconds": seconds,
                    "counted": counted,
                    "predicted": predict(workload, entry, model, counted),
                }
            )
            say(f"  {axis} {value}, {bundle.name}: {1e6 * median(seconds) / workload.n_words:.0f} µs a word")
    return points


def _points(model: Path, sizes: dict[str, int], words: int) -> Iterator[tuple[str, int, Workload, str]]:
    """Yield (axis, value, workload, context); all points of an axis have about the same number of words."""
    packer = packer_with(model, sizes["sentence"])
    long, _ = fitting_of(packer, read_jsonl("ncbi_disease/test.jsonl"))
    for length in SENTENCE_WORDS:
        fitting, _ = fitting_of(packer, list(pieces(long, length)))
        chosen = evenly(fitting, max(1, words // length))
        yield "words a sentence", length, build("growth", packer, "sentence", [[piece] for piece in chosen]), "sentence"
    chosen = evenly(long, max(1, words // 25))
    for limit in ENTITY_MAX_LENGTHS:
        workload = build("growth", packer, "sentence", [[sentence] for sentence in chosen])
        yield "entity_max_length", limit, workload, "sentence"
    packer = packer_with(model, sizes["document"])
    for length in DOCUMENT_SENTENCES:
        fitting, _ = fitting_of(packer, by_document(speeches(length))[-1])
        for context in (policy for policy in ("document", "block") if policy in CONTEXT_POLICIES):
            workload = build("growth", packer, "document", [fitting])
            yield f"sentences a document, {context} context", length, workload, context


def pieces(sentences: list[Sentence], length: int) -> Iterator[Sentence]:
    """Cut text into pieces of `length` words, regardless of sentences; a shorter rest is dropped.

    Args:
        sentences: the sentences.
        length: words per piece.

    >>> [s["tokens"] for s in pieces([{"tokens": ["a", "b", "c"]}, {"tokens": ["d", "e"]}], 2)]
    [['a', 'b'], ['c', 'd']]
    """
    words = [word for sentence in sentences for word in sentence["tokens"]]
    for number, start in enumerate(range(0, len(words) - length + 1, length)):
        yield {
            "document_id": number,
            "sentence_id": 0,
            "tokens": words[start : start + length],
            "entities": [],
        }

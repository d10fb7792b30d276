"""Measurement of one workload: contestants are compared for equal results, tuned, and timed in interleaved rounds."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.contestants import EXACT, PEER, Entry
from benchmarks.process import Worker
from benchmarks.workloads import Workload
from spanmarker_core.evaluation.scores.metrics import SpanScorer
from spanmarker_core.text.tag_schemes import Span

TOLERANCE = 1e-3  # between scores


class Disagreement(Exception):
    """Contestants that should find the same entities do not; timing them would compare different work."""


class Pool:
    """Worker processes, shared by entries with the same module and options.

    Args:
        python: interpreter of this library's environment.
        peer_python: interpreter of the environment of span_marker.
    """

    def __init__(self, python: Path, peer_python: Path) -> None:
        self.python, self.peer_python = python, peer_python
        self.workers: dict[tuple[str, str], Worker] = {}

    def worker(self, entry: Entry) -> Worker:
        """Return the process of an entry, starting it if necessary.

        Args:
            entry: the contestant.
        """
        if entry.process not in self.workers:
            self.workers[entry.process] = self.start(entry)
        return self.workers[entry.process]

    def start(self, entry: Entry) -> Worker:
        """Start a separate process, which the caller closes.

        Args:
            entry: the contestant.
        """
        python = self.peer_python if entry.module == "span_marker_peer" else self.python
        return Worker(python, entry.module, entry.options)

    def close(self) -> None:
        """End all processes."""
        for worker in self.workers.values():
            worker.close()
        self.workers.clear()


def measure(
    workload: Workload,
    entries: list[Entry],
    labels: set[str],
    pool: Pool,
    path: Path,
    rounds: int,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Return the raw results of a workload: times, settings, counts and scores of each entry.

    Every entry runs once before the timing, as a warm-up: its entities are compared with gold, and those of the peer
    with those of this library. In each round the entries then run one after another, one process at a time.

    Args:
        workload: the workload.
        entries: the contestants, including the peer and the exact form of this library.
        labels: the labels of the checkpoint.
        pool: worker processes.
        path: file for the workload, which workers read.
        rounds: number of timed rounds.
        say: called with lines about progress.

    Raises:
        Disagreement: the peer and the exact form find different entities.
    """
    results: dict[str, dict[str, Any]] = {}
    found: dict[str, list | None] = {}
    workload.write(path)
    for entry in entries:
        worker = pool.worker(entry)
        worker.ask("prepare", key=entry.name, path=str(path), **entry.settings)
        chosen = worker.ask("tune", key=entry.name)
        first = worker.ask("first", key=entry.name)
        found[entry.name] = first.pop("entities")
        results[entry.name] = {
            "settings": chosen,
            "macs": first,
            "scores": scores(workload, found[entry.name], labels),
            "versions": worker.ask("facts"),
            "seconds": [],
        }
        say(f"  {entry.name}: ready {chosen or ''}")
    agreement = check_same(*(_exactly(entry, found[entry.name], pool, path) for entry in _compared(entries)))
    say(f"  same {agreement['entities']} entities, scores within {agreement['largest_difference']:.1e}")
    for number in range(rounds):
        for entry in entries:
            results[entry.name]["seconds"].append(pool.worker(entry).ask("seconds", key=entry.name))
        say(f"  round {number + 1} of {rounds}")
    return {
        "name": workload.name,
        "sentences": len(workload.sentences),
        "words": workload.n_words,
        "left_out": workload.left_out,
        "max_tokens": workload.max_tokens,
        "agreement": agreement,
        "entries": results,
    }


def _compared(entries: list[Entry]) -> list[Entry]:
    return [next(entry for entry in entries if entry.name == name) for name in (PEER, EXACT)]


def _exactly(entry: Entry, found: list | None, pool: Pool, path: Path) -> list | None:
    """Return the entities of an entry in float32: those already found, or those of a separate process."""
    if entry.options["dtype"] == "float32":
        return found
    exact = replace(entry, options={**entry.options, "dtype": "float32"})
    with pool.start(exact) as worker:
        worker.ask("prepare", key=entry.name, path=str(path), **entry.settings)
        return worker.ask("first", key=entry.name)["entities"]


def check_same(theirs: list | None, ours: list | None) -> dict[str, float]:
    """Compare the entities of two contestants, given as lists of [start, end, label, score] per sentence.

    Args:
        theirs: entities of the peer.
        ours: entities of this library.

    Raises:
        Disagreement: a span or label differs, a score differs by more than 0.001, or there are no entities to compare.
    """
    assert theirs is not None
    assert ours is not None
    entities, largest = 0, 0.0
    for number, (left, right) in enumerate(zip(theirs, ours, strict=True)):
        left, right = sorted(left), sorted(right)
        if [entity[:3] for entity in left] != [entity[:3] for entity in right]:
            raise Disagreement(f"sentence {number}: span_marker finds {left}, we find {right}")
        for one, other in zip(left, right, strict=True):
            largest = max(largest, abs(one[3] - other[3]))
        entities += len(left)
    if largest > TOLERANCE:
        raise Disagreement(f"scores differ by {largest:.2e}, more than {TOLERANCE}")
    if not entities:
        raise Disagreement("neither finds an entity, so there is nothing to compare: take a trained model")
    return {"entities": entities, "largest_difference": largest}


def scores(workload: Workload, found: list | None, labels: set[str]) -> dict[str, float] | None:
    """Return the entity scores of a sample; None if the contestant finds no entities or gold lacks the model's labels.

    Args:
        workload: the workload.
        found: the entities of each sentence, or None.
        labels: the labels of the checkpoint.
    """
    gold_labels = {entity["label"] for sentence in workload.sentences for entity in sentence["entities"]}
    if found is None or not gold_labels & labels:
        return None
    scorer = SpanScorer()
    for sentence, entities in zip(workload.sentences, found, strict=True):
        gold = [Span(entity["start"], entity["end"], entity["label"]) for entity in sentence["entities"]]
        scorer.add(gold, [Span(start, end, label) for start, end, label, _ in entities])
    micro = scorer.result().micro
    return {"precision": micro.precision, "recall": micro.recall, "f1": micro.f1, "gold": micro.support}

"""Data files of an experiment: subsets that grow document by document, the same for every configuration."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from pipelines.jobs.experiment import ExperimentJob
from pipelines.storage import publish_bytes
from spanmarker_core.data import Sentence, read_annotated


@dataclass(frozen=True)
class DataFiles:
    """The files of one data set at one size.

    Attributes:
        train: path of the training sentences.
        dev: path of the dev sentences.
        test: path of the test sentences.
        sentences: number of sentences by part.
        digests: SHA-256 of the file by part.
    """

    train: Path
    dev: Path
    test: Path
    sentences: dict[str, int]
    digests: dict[str, str]


def write_data(job: ExperimentJob, dataset: str, folder: Path) -> dict[str, DataFiles]:
    """Write the data files of a data set as JSONL and return them by size ("250", "all").

    A subset is the first sentences of a shuffle of the documents, so 250 sentences are a part of 500. The shuffle
    orders documents by a hash of their id and `shuffle_seed` and does not depend on the Python version or the machine.
    A document at the limit keeps its first sentences.

    Args:
        job: the experiment.
        dataset: name of the data set.
        folder: folder for the files.

    Raises:
        CoreError: `data.*`, if the parts cannot be read.
    """
    chosen, paths = job.datasets[dataset], job.parts(dataset)
    parts = {part: list(read_annotated(path, chosen.scheme)) for part, path in paths.items()}
    cuts = {"dev": chosen.dev_sentences, "test": chosen.test_sentences}
    written = {part: _write(folder / f"{part}.jsonl", _first(parts[part], cuts[part], job)) for part in cuts}
    found = {}
    for size in chosen.sizes or job.sizes:
        sentences = _first(parts["train"], None if size == "all" else size, job)
        written["train"] = _write(folder / f"train-{size}.jsonl", sentences)
        found[str(size)] = DataFiles(
            **{part: path for part, (path, _, _) in written.items()},
            sentences={part: count for part, (_, count, _) in written.items()},
            digests={part: digest for part, (_, _, digest) in written.items()},
        )
    return found


def _first(sentences: list[Sentence], count: int | None, job: ExperimentJob) -> list[Sentence]:
    if count is None or count >= len(sentences):
        return sentences
    documents = {name: list(group) for name, group in groupby(sentences, key=lambda each: each.document_id)}
    order = sorted(documents, key=lambda name: hashlib.sha256(f"{job.shuffle_seed} {name}".encode()).digest())
    return [sentence for name in order for sentence in documents[name]][:count]


def _write(path: Path, sentences: Iterable[Sentence]) -> tuple[Path, int, str]:
    lines = [json.dumps(sentence.to_json(), ensure_ascii=False).encode() + b"\n" for sentence in sentences]
    content = b"".join(lines)
    if not path.exists() or path.read_bytes() != content:  # Runs in other processes may be reading it.
        path.parent.mkdir(parents=True, exist_ok=True)
        publish_bytes(str(path), content)
    return path, len(lines), hashlib.sha256(content).hexdigest()

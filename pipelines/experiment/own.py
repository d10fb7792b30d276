"""A run of this library in its own process: `python -m pipelines.experiment.own FOLDER`.

It trains the bundle if it is missing, tags dev and test, and writes the same files as the commands of other systems:
predictions.jsonl, dev_predictions.jsonl and figures.json. A restart resumes an interrupted run.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path
from time import monotonic, process_time
from typing import Any

from rich.console import Console

from pipelines.experiment.runs import BUNDLE, DEV_PREDICTIONS, FIGURES, JOB, PREDICTIONS
from pipelines.jobs.train import TrainJob
from pipelines.processes.memory import peak_rss_bytes
from pipelines.runs.progress import Display
from pipelines.runs.train import run_training
from pipelines.storage import publish_bytes
from spanmarker_core import Tagger, load
from spanmarker_core.bundle.reader import DIGESTS, read_info
from spanmarker_core.data import read_annotated
from spanmarker_core.data.batches import document_batches

_SENTENCES_A_CALL = 256
#: File with the seconds and steps of a finished training.
_TRAINING = "training.json"


def main(folder: Path) -> None:
    """Execute the missing steps of a run.

    Args:
        folder: folder of the run.
    """
    given = json.loads((folder / JOB).read_text(encoding="utf-8"))
    job = TrainJob(**given["job"])
    bundle = folder / BUNDLE
    if not (bundle / DIGESTS).exists():
        began = process_time()
        with Display(Console(width=200)) as display:
            result = run_training(job, display)
        training = {
            "steps": result.steps,
            "train_seconds": result.seconds,
            "train_cpu_seconds": process_time() - began,
            "train_peak_bytes": peak_rss_bytes(),
        }
        publish_bytes(str(folder / _TRAINING), json.dumps(training).encode())
    model = load(bundle, job.device)
    tag(model, job.dev, folder / DEV_PREDICTIONS)
    speed = tag(model, given["test"], folder / PREDICTIONS)
    config = model.config
    figures = {
        **_training(folder, config.facts),
        **speed,
        "entity_max_length": config.entity_max_length,
        "gate_threshold": model.gate_threshold,
        "model_digest": read_info(bundle).digest,
        "versions": {name: version(name) for name in ("spanmarker-pipelines", "torch", "transformers")},
    }
    publish_bytes(str(folder / FIGURES), json.dumps(figures, indent=2).encode() + b"\n")


def tag(model: Tagger, data: str, output: Path) -> dict[str, float]:
    """Tag the sentences of a file, write the predictions and return the speed figures.

    Args:
        model: the tagger.
        data: path of the sentences.
        output: path for the predictions.
    """
    lines: list[str] = []
    words, seconds, cpu = 0, 0.0, 0.0
    for batch in document_batches(read_annotated(data), _SENTENCES_A_CALL):
        began, cpu_began = monotonic(), process_time()
        tagged = model.tag_words(
            [sentence.words for sentence in batch], document_ids=[sentence.document_id for sentence in batch]
        )
        seconds += monotonic() - began
        cpu += process_time() - cpu_began
        for sentence, entities in zip(batch, tagged, strict=True):
            words += len(sentence.words)
            found = [{"start": each.word_start, "end": each.word_end, "label": each.label} for each in entities]
            ids = {"document_id": sentence.document_id, "sentence_id": sentence.sentence_id}
            lines.append(json.dumps({**ids, "entities": found}, ensure_ascii=False) + "\n")
    publish_bytes(str(output), "".join(lines).encode())
    return {"predict_seconds": seconds, "words_per_second": words / seconds, "words_per_cpu_second": words / cpu}


def _training(folder: Path, facts: dict[str, Any]) -> dict[str, Any]:
    """Return the cost of the training; its time is unknown if the process ended between the bundle and this file."""
    try:
        return json.loads((folder / _TRAINING).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {"steps": facts.get("steps")}


if __name__ == "__main__":
    main(Path(sys.argv[1]))

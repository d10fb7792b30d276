"""What a run of an experiment is: its name, its folder, what decides its outcome, and what is there of it."""

import hashlib
import json
import shutil
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pipelines.errors import PipelineError
from pipelines.experiment.data import DataFiles
from pipelines.jobs.experiment import GIVEN, ExperimentJob
from pipelines.storage import publish_bytes

#: Files of a run's folder.
IDENTITY, JOB, LOG, SCORES = "run.json", "job.json", "log.txt", "scores.json"
PREDICTIONS, DEV_PREDICTIONS, FIGURES, BUNDLE = "predictions.jsonl", "dev_predictions.jsonl", "figures.json", "bundle"
#: Of a bundle whose weights are not kept.
_WEIGHTS = ("model.safetensors", "tokenizer.json")


@dataclass(frozen=True)
class Run:
    """One training and its predictions.

    Attributes:
        dataset, configuration, size, seed: what makes the name.
        folder: where everything of it is.
        files: what it reads.
        job: what `spanmarker train` is told, as plain values.
        command: words to execute.
        identity: what decides its outcome; another identity is another run.
        own: it trains a bundle of this library.
    """

    dataset: str
    configuration: str
    size: str
    seed: int
    folder: Path
    files: DataFiles
    job: dict[str, Any]
    command: list[str]
    identity: dict[str, Any]
    own: bool

    @property
    def name(self) -> str:
        """DATASET/CONFIG/SIZE/SEED."""
        return f"{self.dataset}/{self.configuration}/{self.size}/{self.seed}"

    @property
    def done(self) -> bool:
        """Whether its scores are there."""
        return (self.folder / SCORES).exists()

    def changes(self) -> list[str]:
        """Return what differs from what the folder was begun with; nothing if it was not begun."""
        try:
            before = json.loads((self.folder / IDENTITY).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return []
        except ValueError:
            return ["its run.json can't be read"]
        names = [name for name in {**before, **self.identity} if before.get(name) != self.identity.get(name)]
        return [f"{name}: {_short(before.get(name))} -> {_short(self.identity.get(name))}" for name in names]

    def begin(self) -> None:
        """Write what the run is into its folder, before it starts or goes on."""
        self.folder.mkdir(parents=True, exist_ok=True)
        publish_bytes(str(self.folder / IDENTITY), _json(self.identity))
        publish_bytes(str(self.folder / JOB), _json({"job": self.job, "test": str(self.files.test)}))

    def remove(self) -> None:
        """Remove all that is there of it."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def remove_weights(self) -> None:
        """Remove the weights of its bundle; config and card stay."""
        for name in _WEIGHTS:
            (self.folder / BUNDLE / name).unlink(missing_ok=True)


def plan_runs(job: ExperimentJob, data: dict[str, dict[str, DataFiles]]) -> list[Run]:
    """Return all runs, seed by seed, so that an experiment that is stopped early has something of everything."""
    return [
        _run(job, dataset, configuration, size, seed, files)
        for seed in job.seeds
        for dataset, sizes in data.items()
        for size, files in sizes.items()
        for configuration in job.configurations
    ]


def check_changes(runs: list[Run], output: str) -> None:
    """Refuse to go on where a run was begun with something else.

    Raises:
        PipelineError: `experiment.changed`, with every such run and what differs.
    """
    changed = {run.name: changes for run in runs if (changes := run.changes())}
    if changed:
        lines = [f"  {name}: {'; '.join(changes)}" for name, changes in list(changed.items())[:20]]
        if len(changed) > len(lines):
            lines.append(f"  and {len(changed) - len(lines)} more")
        raise PipelineError("experiment.changed", count=len(changed), output=output, runs="\n".join(lines))


def _run(job: ExperimentJob, dataset: str, configuration: str, size: str, seed: int, files: DataFiles) -> Run:
    own = job.configurations[configuration].command is None
    folder = Path(job.output, "runs", dataset, configuration, size, str(seed)).absolute()
    given: dict[str, Any] = {"train": str(files.train.absolute()), "dev": str(files.dev.absolute()), "seed": seed}
    given |= {"output": str(folder / BUNDLE if own else folder)}
    if not own or job.keep_models:
        given["test"] = str(files.test.absolute())  # for the card; a bundle that goes needs none
    training = job.train_job(dataset, configuration, **given)
    # What was left out is not in the identity, so that a new option with a default changes no run.
    values = training.model_dump(exclude_unset=True)
    identity = {name: value for name, value in values.items() if name not in GIVEN and name != "encoder"}
    identity |= {"seed": seed, "encoder": digest_of(Path(training.encoder))}
    identity |= {f"{part} data": digest for part, digest in files.digests.items()}
    if own:
        command = [sys.executable, "-m", "pipelines.experiment.own", str(folder)]
    else:
        command = job.command(configuration, training)
        identity["command"] = job.configurations[configuration].command
        identity |= {f"file {word}": digest_of(Path(word)) for word in _files_of(job, configuration)}
    return Run(dataset, configuration, size, seed, folder, files, values, command, identity, own)


def _files_of(job: ExperimentJob, configuration: str) -> list[str]:
    """Return the words of a command that are files, such as its script."""
    return [word for word in job.configurations[configuration].words if "{" not in word and Path(word).is_file()]


@cache
def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file, or of the names and contents of a folder's files; "" where nothing is."""
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    files = sorted(each for each in path.glob("*") if each.is_file())
    lines = "".join(f"{each.name} {digest_of(each)}\n" for each in files)
    return hashlib.sha256(lines.encode()).hexdigest() if lines else ""


def _short(value: object) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:16]}…"


def _json(values: object) -> bytes:
    return json.dumps(values, ensure_ascii=False, indent=2).encode() + b"\n"

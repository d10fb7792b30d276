"""A run of an experiment: its name, its folder, its identity and its files."""

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
from spanmarker_core.bundle.repositories import find_encoder
from spanmarker_core.text.shortened import shortened

#: Files in the folder of a run.
IDENTITY, JOB, LOG, SCORES = "run.json", "job.json", "log.txt", "scores.json"
PREDICTIONS, DEV_PREDICTIONS, FIGURES, BUNDLE = "predictions.jsonl", "dev_predictions.jsonl", "figures.json", "bundle"
#: Files that are removed from a bundle whose weights are not kept.
_WEIGHTS = ("model.safetensors", "tokenizer.json")


@dataclass(frozen=True)
class Run:
    """One training and its predictions.

    Attributes:
        dataset: name of the data set.
        configuration: name of the configuration.
        size: number of training sentences as text, or "all".
        seed: random seed.
        folder: folder of all files of the run.
        files: data files that the run reads.
        job: values of the `spanmarker train` job.
        command: the command to execute, as a list of arguments.
        identity: everything that determines the outcome; another identity is another run.
        own: whether the run trains a bundle of this library.
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
        """Return the name DATASET/CONFIG/SIZE/SEED."""
        return f"{self.dataset}/{self.configuration}/{self.size}/{self.seed}"

    @property
    def done(self) -> bool:
        """Return whether the scores of the run exist."""
        return (self.folder / SCORES).exists()

    def changes(self) -> list[str]:
        """Return the differences from the identity that the folder was begun with; none if it was not begun."""
        try:
            before = json.loads((self.folder / IDENTITY).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return []
        except ValueError:
            return ["cannot read its run.json"]
        names = [name for name in {**before, **self.identity} if before.get(name) != self.identity.get(name)]
        return [f"{name}: {_short(before.get(name))} -> {_short(self.identity.get(name))}" for name in names]

    def begin(self) -> None:
        """Write the identity and the job into the folder, before the run starts or resumes."""
        self.folder.mkdir(parents=True, exist_ok=True)
        publish_bytes(str(self.folder / IDENTITY), _json(self.identity))
        publish_bytes(str(self.folder / JOB), _json({"job": self.job, "test": str(self.files.test)}))

    def remove(self) -> None:
        """Remove all files of the run."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def remove_weights(self) -> None:
        """Remove the weights of the bundle; config and card stay."""
        for name in _WEIGHTS:
            (self.folder / BUNDLE / name).unlink(missing_ok=True)


def plan_runs(job: ExperimentJob, data: dict[str, dict[str, DataFiles]]) -> list[Run]:
    """Return all runs, seed by seed, so that an experiment that is stopped early has results for all configurations.

    Args:
        job: the experiment.
        data: data files by data set and size.
    """
    return [
        _run(job, dataset, configuration, size, seed, files)
        for seed in job.seeds
        for dataset, sizes in data.items()
        for size, files in sizes.items()
        for configuration in job.configurations
    ]


def check_changes(runs: list[Run], output: str) -> None:
    """Reject an experiment in which runs were begun with other settings or data.

    Args:
        runs: the runs.
        output: output folder of the experiment, for the error.

    Raises:
        PipelineError: `experiment.changed`, with all such runs and their differences.
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
        given["test"] = str(files.test.absolute())  # for the card; a bundle that is not kept needs none
    encoder = find_encoder(job.train_job(dataset, configuration, **given).encoder)
    # A command of another system gets a folder; a run of this library states the repository on its card.
    given["encoder"] = encoder.name if own else str(encoder.path)
    training = job.train_job(dataset, configuration, **given)
    # Omitted settings are not in the identity, so a new option with a default changes no run.
    values = training.model_dump(exclude_unset=True)
    identity = {name: value for name, value in values.items() if name not in GIVEN and name != "encoder"}
    identity |= {"seed": seed, "encoder": digest_of(encoder.path)}
    identity |= {f"{part} data": digest for part, digest in files.digests.items()}
    if own:
        command = [sys.executable, "-m", "pipelines.experiment.own", str(folder)]
    else:
        command = job.command(configuration, training)
        identity["command"] = job.configurations[configuration].command
        identity |= {f"file {word}": digest_of(Path(word)) for word in _files_of(job, configuration)}
    return Run(dataset, configuration, size, seed, folder, files, values, command, identity, own)


def _files_of(job: ExperimentJob, configuration: str) -> list[str]:
    """Return the arguments of a command that are files, such as its script."""
    return [word for word in job.configurations[configuration].words if "{" not in word and Path(word).is_file()]


@cache
def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file, or of the names and contents of a folder's files; "" if the path does not exist.

    Args:
        path: path of a file or folder.
    """
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    files = sorted(each for each in path.glob("*") if each.is_file())
    lines = "".join(f"{each.name} {digest_of(each)}\n" for each in files)
    return hashlib.sha256(lines.encode()).hexdigest() if lines else ""


def _short(value: object) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 60 else shortened(text, 17)  # long values are digests


def _json(values: object) -> bytes:
    return json.dumps(values, ensure_ascii=False, indent=2).encode() + b"\n"

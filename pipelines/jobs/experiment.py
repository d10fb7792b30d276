"""Job model of `spanmarker experiment`: data sets x configurations x sizes x seeds, flat, typed, without extra fields.

    # spanmarker experiment claim.toml
    output = "experiments/claim"
    data = "data"                     # DATA/NAME/{train,dev,test}.jsonl of each data set
    encoder = "encoders/minilm"
    seeds = [1, 2, 3]
    sizes = [250, "all"]              # training sentences
    settings = { epochs = 5, learning_rate = 3e-4 }
    compare = [["span_marker", "token_classification"]]

    [datasets.wnut17]
    settings = { max_tokens = 128 }

    [configurations.span_marker]
    settings = { gate = true }

    [configurations.token_classification]
    command = "{python} baseline.py --train {train} --dev {dev} --test {test} --output {output} --epochs {epochs}"

Settings are those of `spanmarker train`. Settings of a configuration override those of its data set, which override
those of the experiment. `options` are overridden name by name; options of another architecture are dropped.
"""

import re
import shlex
import string
import sys
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from pipelines.jobs.problems import problems_of
from pipelines.jobs.shared import Encoder
from pipelines.jobs.train import TrainJob
from spanmarker_core.shown import Panel, Shown

#: Settings of `spanmarker train` that the experiment sets for each run.
GIVEN = ("train", "dev", "test", "output", "seed", "train_sentences", "scheme")
#: Placeholders that a command may use besides the settings.
PLACES = ("train", "dev", "test", "output", "seed", "encoder", "python")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
Size = Annotated[int, Field(ge=1)] | Literal["all"]
Count = Annotated[int, Field(ge=1)]


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DataSet(_Closed):
    """A data set: the files of its three parts, the number of sentences to use, and its own settings."""

    train: str | None = Field(None, description="training sentences; default: DATA/NAME/train.jsonl")
    dev: str | None = Field(None, description="sentences that decide on the best epoch; default: DATA/NAME/dev.jsonl")
    test: str | None = Field(None, description="sentences to score; default: DATA/NAME/test.jsonl")
    scheme: str | None = Field(None, description="label scheme of tagged data, such as IOB2")
    sizes: list[Size] | None = Field(None, min_length=1, description="sizes that replace those of the experiment")
    dev_sentences: Count | None = Field(None, description="use only the first N dev sentences")
    test_sentences: Count | None = Field(None, description="use only the first N test sentences")
    settings: dict[str, Any] = Field({}, description="settings of `spanmarker train` for this data set")


class Configuration(_Closed):
    """A configuration to compare: settings of `spanmarker train`, or a command that runs another system on it."""

    command: str | None = Field(None, description="command line of another system, with {train}, {seed}, {epochs} ...")
    settings: dict[str, Any] = Field({}, description="settings of `spanmarker train` for this configuration")

    @cached_property
    def words(self) -> list[str]:
        """Return the arguments of the command, with placeholders not yet filled."""
        return shlex.split(self.command or "")


class ExperimentJob(_Closed):
    """The job of `spanmarker experiment`."""

    output: Annotated[str, Shown(Panel.FILES, "FOLDER")] = Field(
        min_length=1, description="Folder for the runs and the results."
    )
    data: Annotated[str, Shown(Panel.FILES, "FOLDER")] = Field(
        "data", description="Folder with one subfolder per data set."
    )
    encoder: Encoder
    datasets: dict[str, DataSet] = Field(min_length=1, description="a table [datasets.NAME] for each data set")
    configurations: dict[str, Configuration] = Field(
        min_length=1, description="a table [configurations.NAME] for each configuration"
    )
    seeds: list[Annotated[int, Field(ge=0)]] = Field(min_length=1, description="random seeds, such as [1, 2, 3]")
    sizes: list[Size] = Field(["all"], min_length=1, description="numbers of training sentences, or all")
    settings: dict[str, Any] = Field({}, description="settings of `spanmarker train` for all runs")
    compare: list[tuple[str, str]] = Field([], description="pairs of configurations to test for a difference")
    shuffle_seed: int = Field(0, ge=0, description="seed for the order from which the first sentences are taken")
    resamples: int = Field(10_000, ge=100, description="number of bootstrap resamples")
    keep_models: Annotated[bool, Shown(Panel.FILES)] = Field(False, description="Keep the model weights.")
    # They share the machine, so times are longer.
    workers: Annotated[int, Shown(Panel.SPEED, "N")] = Field(1, ge=1, description="Number of concurrent runs.")
    threads: Annotated[int, Shown(Panel.SPEED, "N")] = Field(
        0, ge=0, description="CPU threads per run.  [default: the cores divided by the workers]"
    )
    only: Annotated[list[str], Shown(Panel.RELIABILITY, "PREFIX")] = Field(
        [], description="Execute only runs whose DATASET/CONFIG/SIZE/SEED starts with this. Can be repeated."
    )
    redo: Annotated[list[str], Shown(Panel.RELIABILITY, "PREFIX")] = Field(
        [], description="Repeat runs whose name starts with this. Can be repeated."
    )

    @field_validator("datasets", "configurations")
    @classmethod
    def _names_of_folders(cls, value: dict[str, Any]) -> dict[str, Any]:
        if wrong := [name for name in value if not _NAME.fullmatch(name)]:
            raise ValueError(
                f"{', '.join(map(repr, wrong))}: names become folder names, so use only letters, digits and . _ -"
            )
        return value

    @field_validator("seeds", "sizes", "compare")
    @classmethod
    def _each_once(cls, value: list[Any]) -> list[Any]:
        if twice := sorted({str(item) for item in value if value.count(item) > 1}):
            raise ValueError(f"{', '.join(twice)} occurs twice")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> "ExperimentJob":
        problems = [
            f"compare: {name!r} is not one of the configurations: {', '.join(self.configurations)}"
            for pair in self.compare
            for name in pair
            if name not in self.configurations
        ]
        problems += [f"compare: {pair[0]!r} with itself" for pair in self.compare if pair[0] == pair[1]]
        for where, settings in self._all_settings().items():
            if given := [name for name in GIVEN if name in settings]:
                problems.append(f"{where}: {', '.join(given)} is set by the experiment")
        for name, configuration in self.configurations.items():
            problems += [f"configurations.{name}.command: {problem}" for problem in _problems(configuration)]
        if not problems:
            problems = list(dict.fromkeys(line for each in self._pairs() for line in self._wrong_settings(*each)))
        if problems:
            raise ValueError("\n    ".join(["these settings contradict each other:", *problems]))
        return self

    def _all_settings(self) -> dict[str, dict[str, Any]]:
        return {
            "settings": self.settings,
            **{f"datasets.{name}.settings": each.settings for name, each in self.datasets.items()},
            **{f"configurations.{name}.settings": each.settings for name, each in self.configurations.items()},
        }

    def _pairs(self) -> list[tuple[str, str]]:
        return [(dataset, name) for dataset in self.datasets for name in self.configurations]

    def _wrong_settings(self, dataset: str, configuration: str) -> list[str]:
        try:
            self.train_job(dataset, configuration)
        except ValidationError as error:
            lines = problems_of(TrainJob, error, (), (), None)
            return [f"settings of {configuration} on {dataset}: {line.removeprefix('this job: ')}" for line in lines]
        return []

    def train_job(self, dataset: str, configuration: str, **given: Any) -> TrainJob:
        """Return the training job of a run.

        Args:
            dataset: name of the data set.
            configuration: name of the configuration.
            given: values of the settings in `GIVEN`.
        """
        values = {"encoder": self.encoder, **self.settings}
        for over in (self.datasets[dataset].settings, self.configurations[configuration].settings):
            values = _laid_over(values, over)
        return TrainJob(**{"train": "-", "dev": "-", "output": "-", **values, **given})

    def parts(self, dataset: str) -> dict[str, str]:
        """Return the paths of the train, dev and test files of a data set.

        Args:
            dataset: name of the data set.
        """
        chosen = self.datasets[dataset]
        return {
            part: getattr(chosen, part) or str(Path(self.data, dataset, f"{part}.jsonl"))
            for part in ("train", "dev", "test")
        }

    def command(self, configuration: str, job: TrainJob) -> list[str]:
        """Return the command of a configuration with its placeholders filled from a training job.

        A setting without a value and without a default becomes an empty string.

        Args:
            configuration: name of the configuration.
            job: the training job of the run.
        """
        values = {**job.model_dump(), "python": sys.executable}
        texts = {name: "" if value is None else str(value) for name, value in values.items()}
        return [word.format_map(texts) for word in self.configurations[configuration].words]


def _laid_over(below: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Return settings overridden by others; options are merged name by name if the architecture stays the same."""
    values = {**below, **over}
    kept, given = below.get("options", {}) if _family(values) == _family(below) else {}, over.get("options", {})
    if isinstance(kept, dict) and isinstance(given, dict) and "options" in values:
        values["options"] = {**kept, **given}
    return values


def _family(settings: dict[str, Any]) -> str:
    """Return the name of the architecture in the settings, without its version."""
    return str(settings.get("architecture", TrainJob.model_fields["architecture"].default)).partition(".")[0]


def _problems(configuration: Configuration) -> list[str]:
    """Return the problems of a configuration's command; none if it has no command."""
    if configuration.command is None:
        return []
    try:
        words = configuration.words
        used = {name for word in words for _, name, _, _ in string.Formatter().parse(word) if name is not None}
    except ValueError as error:
        return [f"it is not valid: {error}. Double braces that are not placeholders"]
    known = {*PLACES, *TrainJob.model_fields}
    problems = [f"{{{name}}} is not one of {', '.join(sorted(known))}" for name in sorted(used - known)]
    if not words:
        problems.append("it is empty")
    if missing := [f"{{{name}}}" for name in ("train", "test", "output") if name not in used]:
        problems.append(f"it does not use {', '.join(missing)}, so it would not run on the same files")
    return problems

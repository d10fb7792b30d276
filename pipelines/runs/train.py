"""Driver of `spanmarker train`: reads the data, trains and writes the bundle."""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console

from pipelines.errors import PipelineError
from pipelines.jobs.train import TrainJob
from pipelines.output.overwrite import refuse_bundle, refuse_inputs
from pipelines.training_data.windows import PackedAs, PreparedWindows, is_prepared
from spanmarker_core.data import Sentence, read_annotated
from spanmarker_core.evaluation.report import f1_in_words
from spanmarker_core.training import TrainingResult, TrainingSettings, TrainingWindows, train
from spanmarker_core.training.checkpoints import RUN, TrainingFolder
from spanmarker_core.training.distributed import rank
from spanmarker_core.training.initialise import encoder_packer


def run_training(job: TrainJob, console: Console) -> TrainingResult:
    """Read the data, train, write the bundle and print its scores.

    Args:
        job: the job.
        console: receives the output of the command.
    """

    def say(line: str) -> None:
        console.print(line, markup=False, highlight=False)

    _refuse_overwrites(job)
    sentences, settings = _training_data(job, say)
    result = train(
        sentences,
        list(_annotated(job, job.dev)),
        job.encoder,
        job.output,
        settings,
        test_sentences=list(_annotated(job, job.test)) if job.test else (),
        facts=job.facts(),
        card_facts={"data_name": Path(job.train).name},
        log=say,
    )
    if rank():
        return result
    say(
        f"{job.output}: dev F1 {result.dev.micro.f1:.1%} after {result.steps} steps "
        f"in {result.seconds:.0f} s, model {result.digest[:12]}"
    )
    if result.test is not None:
        say(f"test {f1_in_words(result.test)} on {result.test.micro.support:,} entities")
    return result


def _annotated(job: TrainJob, path: str) -> Iterator[Sentence]:
    return read_annotated(
        path,
        job.scheme,
        token_column=job.token_column,
        tag_column=job.tag_column,
        language=(job.language or "en").split(",")[0].strip(),
        splitter=job.splitter,
    )


def _training_data(
    job: TrainJob, say: Callable[[str], None]
) -> tuple[list[Sentence] | TrainingWindows, TrainingSettings]:
    """Return the data and the settings. Packing settings that the job leaves open come from prepared windows."""
    if not is_prepared(job.train):
        settings = job.settings()
        return list(islice(_annotated(job, job.train), job.train_sentences)), settings
    if job.train_sentences is not None:
        raise PipelineError(
            "job.invalid", problems="  train_sentences: prepared windows are always used in full: remove it"
        )
    windows = PreparedWindows(job.train, job.max_misaligned)
    left_open = _left_open(job, windows.packed_as)
    settings = TrainingSettings(**{**job.given, **left_open})
    windows.check(encoder_packer(job.encoder, settings), settings.shown)
    if (inherited := {name: value for name, value in left_open.items() if value != getattr(job, name)}) and not rank():
        say(
            f"Settings of the prepared windows in {job.train}: "
            f"{', '.join(f'{name} {value}' for name, value in inherited.items())}"
        )
    return windows, settings


def _left_open(job: TrainJob, packed: PackedAs) -> dict[str, Any]:
    """Return the packing options of the windows that the job does not set; limits only if the contexts are the same."""
    context = packed.context
    there: dict[str, Any] = {
        "entity_max_length": packed.entity_max_length,
        "max_tokens": packed.max_tokens,
        "splitter": packed.splitter,
        "context": context.policy,
    }
    if "context" not in job.model_fields_set or job.context == context.policy:
        there |= {"max_prev_context": context.max_prev, "max_next_context": context.max_next}
    return {name: value for name, value in there.items() if name not in job.model_fields_set}


def _refuse_overwrites(job: TrainJob) -> None:
    """Reject an output that is an input, or whose checkpoint folder contains other files.

    The checkpoint folder is removed with its contents once the bundle is written.

    Raises:
        PipelineError: `output.is_input`, `output.would_replace`.
    """
    inputs = [job.train, job.dev, job.encoder, *([job.test] if job.test else [])]
    refuse_bundle("--output", job.output, inputs)
    checkpoints = TrainingFolder(job.output)
    refuse_inputs("--output", str(checkpoints.path), (RUN,), inputs)
    for each in inputs:
        if Path(each).resolve().is_relative_to(checkpoints.path.resolve()):
            raise PipelineError("output.is_input", option="--output", path=checkpoints.path, input=each)
    if checkpoints.is_foreign():
        raise PipelineError("output.would_replace", option="--output", path=checkpoints.path)

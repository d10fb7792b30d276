"""`spanmarker train` as a job: its options, and prepared windows as its data."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from pipelines.errors import PipelineError
from pipelines.jobs.job_file import read_job
from pipelines.jobs.train import TrainJob
from pipelines.runs.progress import Display
from pipelines.runs.train import run_training
from spanmarker_core import load
from spanmarker_core.data import Span
from spanmarker_core.errors import CoreError
from spanmarker_core.windows.packer import Context
from tests.support.annotated import LIMITS, write_sentences
from tests.support.annotated import prepare_annotated as prepare
from tests.support.training import sentences

FILES = {"train": "t", "dev": "d", "encoder": "e", "output": "o"}


def test_a_job_hands_on_how_steps_are_made():
    options = {"batch_tokens": 900, "accumulation": 2, "precision": "bf16", "gradient_checkpointing": True}
    settings = read_job(TrainJob, None, {**FILES, **options, "save_steps": 7}).settings()
    assert {name: getattr(settings, name) for name in options} == options
    assert (settings.save_steps, settings.report_to, settings.batch_size) == (7, [], 32)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"batch_size": 8, "batch_tokens": 900}, "the size of a step"),
        ({"report_to": ["nowhere"]}, "--report-to: nowhere is not an integration of transformers"),
        ({"report_to": ["neptune"]}, "--report-to: neptune is not installed: install its package"),
        ({"precision": "int8"}, "--precision: "),
        ({"accumulation": 0}, "--accumulation: "),
        ({"save_steps": 0}, "--save-steps: "),
    ],
)
def test_options_that_cannot_be(options, says):
    with pytest.raises(PipelineError, match=says):
        read_job(TrainJob, None, {**FILES, **options})


def trained(job) -> str:
    console = Console(file=io.StringIO(), width=300)
    with Display(console) as display:
        run_training(job, display)
    return console.file.getvalue()


@pytest.mark.slow
def test_what_a_job_leaves_open_is_as_its_windows_were_prepared(encoder, tmp_path):
    data = sentences()
    train, dev = write_sentences(tmp_path / "train.jsonl", data), write_sentences(tmp_path / "dev.jsonl", data[:5])
    prepare([train], tmp_path / "samples", encoder, context="document", max_prev_context=1)  # LIMITS are no defaults
    files = {"train": str(tmp_path / "samples"), "dev": str(dev), "encoder": str(encoder), "epochs": 1, "device": "cpu"}
    said = trained(TrainJob(**files, output=str(tmp_path / "b")))
    assert ": entity_max_length 4, max_tokens 32, context document, max_prev_context 1\n" in said
    config = load(tmp_path / "b").config
    assert (config.max_tokens, config.entity_max_length) == (LIMITS["max_tokens"], LIMITS["entity_max_length"])
    assert config.context == Context("document", 1, None)
    for given, line in (
        ({"max_tokens": 48}, "--max-tokens: 32 there, 48 here"),
        ({"context": "sentence"}, "context: document there, sentence here"),
        ({"max_prev_context": 2}, "--max-prev-context: 1 there, 2 here"),
        ({"max_next_context": 1}, "--max-next-context: none there, 1 here"),
        ({"splitter": "tokenizer.v1"}, "splitter: words.v1 there, tokenizer.v1 here"),
    ):
        with pytest.raises(PipelineError, match=rf"samples.other_packing(.|\n)*  {line}"):
            trained(TrainJob(**files, output=str(tmp_path / "c"), **given))


@pytest.mark.slow
def test_prepared_windows_train_as_the_data_that_they_were_made_of(encoder, tmp_path):
    data = [replace(sentence, sentence_id=sentence.sentence_id + 1) for sentence in sentences()]
    train, dev = write_sentences(tmp_path / "train.jsonl", data), write_sentences(tmp_path / "dev.jsonl", data[:20])
    limits = {"max_tokens": 48, "entity_max_length": 3}
    prepare([train], tmp_path / "samples", encoder, context="document", **limits)
    base = {
        "dev": str(dev),
        "encoder": str(encoder),
        "context": "document",
        "epochs": 12,
        "batch_size": 4,
        "learning_rate": 5e-3,
        "seed": 3,
        "device": "cpu",
        **limits,
    }
    said = trained(TrainJob(train=str(tmp_path / "samples"), output=str(tmp_path / "b"), **base))
    model = load(tmp_path / "b")
    assert model.config.labels == ["O", "location", "person"]
    assert model.config.facts["train_sentences"] == len(data)
    assert float(said.rsplit("dev F1 ", 1)[1].split("%")[0]) > 60
    with pytest.raises(PipelineError) as caught:
        trained(TrainJob(train=str(tmp_path / "samples"), output=str(tmp_path / "c"), **{**base, "max_tokens": 40}))
    assert caught.value.code == "samples.other_packing"
    job = TrainJob(train=str(tmp_path / "samples"), output=str(tmp_path / "c"), train_sentences=3, **base)
    with pytest.raises(PipelineError, match="always used in full"):
        trained(job)
    other = [replace(sentence, entities=[Span(0, 1, "event")]) for sentence in data[:5]]
    base["dev"] = str(write_sentences(tmp_path / "other.jsonl", other))
    with pytest.raises(CoreError, match=r"data\.no_common_label"):
        trained(TrainJob(train=str(tmp_path / "samples"), output=str(tmp_path / "c"), **base))

"""Runs that break off, go on, or must not go on; in this process. Real kills are in tests/faults/test_training.py."""

import shutil
from dataclasses import replace
from itertools import chain

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import EarlyStoppingCallback, TrainerCallback

from spanmarker_core.errors import CoreError
from spanmarker_core.training import train
from tests.support.training import RUN, Losses, losses, quiet, sentences


class Stop(TrainerCallback):
    """Ends the run before a step, as Ctrl-C does."""

    def __init__(self, step):
        self.step = step

    def on_step_begin(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def whole(encoder, tmp_path_factory):
    """The losses and the bundle of a run of 21 steps that was never broken off."""
    folder = tmp_path_factory.mktemp("whole") / "bundle"
    return losses(folder, encoder, RUN), folder


#: In the middle of an epoch, at a checkpoint, at the end of an epoch, and before the first step.
STOPS = (0, 5, 9, 14, 20)


@pytest.mark.parametrize("stops", [(5, 14), pytest.param(STOPS, marks=pytest.mark.slow)])
def test_a_run_that_breaks_off_goes_on_to_the_same_weights(stops, encoder, whole, tmp_path):
    expected, bundle = whole
    settings = RUN.replace(save_steps=3)
    data, lines, seen = sentences(), [], Losses()
    for stop in stops:
        with pytest.raises(KeyboardInterrupt):
            train(data, data[:10], encoder, tmp_path / "b", settings, log=lines.append, callbacks=[Stop(stop), seen])
    assert not (tmp_path / "b").exists()
    result = train(data, data[:10], encoder, tmp_path / "b", settings, log=lines.append, callbacks=[seen])
    checkpoint = {0: 0, 5: 3, 9: 9, 14: 14, 20: 18}
    starts = [checkpoint[stop] for stop in stops]
    assert [line.split("checkpoint-")[1] for line in lines if line.startswith("Resuming")] == [
        f"{start}." for start in starts if start
    ]
    # Each try goes on after its checkpoint; steps that were done after the last checkpoint come again, as they were.
    again = [expected[start:stop] for start, stop in zip([0, *starts], [*stops, 21], strict=True)]
    assert seen.losses == list(chain.from_iterable(again))
    assert result.steps == 21
    weights, others = (load_file(path / "model.safetensors") for path in (tmp_path / "b", bundle))
    assert all(torch.equal(weights[name], others[name]) for name in others)
    assert not (tmp_path / "b.training").exists()


@pytest.mark.slow
def test_a_run_that_ended_before_its_bundle_was_written_only_writes_it(encoder, whole, tmp_path, monkeypatch):
    data = sentences()

    def full(*arguments, **options):
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("spanmarker_core.training.checkpoints.os.replace", full)
        patch.setattr("spanmarker_core.training.checkpoints.publish_text", lambda path, text: path.write_text(text))
        patch.setattr("spanmarker_core.training.checkpoints.shutil.copytree", full)
        with pytest.raises(CoreError, match=r"bundle\.output_not_writable.*No space left"):
            train(data, data[:10], encoder, tmp_path / "b", RUN, log=quiet)
    seen, seconds = Losses(), float((tmp_path / "b.training" / "checkpoint-21" / "whole").read_text())
    result = train(data, data[:10], encoder, tmp_path / "b", RUN, log=quiet, callbacks=[seen])
    assert seen.losses == []
    assert result.seconds > seconds > 0
    weights, others = (load_file(path / "model.safetensors") for path in (tmp_path / "b", whole[1]))
    assert all(torch.equal(weights[name], others[name]) for name in others)


def broken_off(folder, encoder, settings=RUN):
    """Leave the checkpoint of the first epoch of a run."""
    data = sentences()
    with pytest.raises(KeyboardInterrupt):
        train(data, data[:10], encoder, folder, settings, log=quiet, callbacks=[Stop(8)])
    return folder.with_name(f"{folder.name}.training") / "checkpoint-7"


@pytest.mark.slow
def test_another_run_does_not_go_on_and_is_told_what_differs(encoder, tmp_path):
    broken_off(tmp_path / "b", encoder)
    data = sentences()
    other = shutil.copytree(encoder, tmp_path / "encoder")
    weights = load_file(other / "model.safetensors")
    save_file({name: weight + 1 for name, weight in weights.items()}, other / "model.safetensors", {"format": "pt"})
    unlabelled = [*data[:-1], replace(data[-1], entities=[])]
    for arguments, settings, differs in [
        ((unlabelled, data[:10], encoder), RUN, "training data"),
        ((data, data[:11], encoder), RUN, "dev data"),
        ((data, data[:10], other), RUN, "encoder"),
        ((data, data[:10], encoder), RUN.replace(learning_rate=1e-3), "settings.learning_rate"),
        ((data, data[:10], encoder), RUN.replace(encoder_layers=1), "settings.encoder_layers"),
    ]:
        with pytest.raises(CoreError) as caught:
            train(*arguments, tmp_path / "b", settings, log=quiet)
        assert caught.value.code == "training.changed"
        assert [line.split(":")[0].strip() for line in caught.value.values["differences"].splitlines()] == [differs]
    # What doesn't change what is learned may differ.
    free = RUN.replace(accumulation=2, save_steps=5, gradient_checkpointing=True, options={"output": "spans"})
    assert train(data, data[:10], encoder, tmp_path / "b", free, log=quiet).steps == 21


def test_checkpoints_that_are_half_written_are_passed_over_and_foreign_ones_refused(encoder, tmp_path):
    checkpoint = broken_off(tmp_path / "b", encoder)
    half = shutil.copytree(checkpoint, checkpoint.with_name("checkpoint-14"))
    (half / "whole").unlink()
    (half / "optimizer.pt").write_bytes(b"")
    lines, data = [], sentences()
    with pytest.raises(KeyboardInterrupt):
        train(data, data[:10], encoder, tmp_path / "b", RUN, log=lines.append, callbacks=[Stop(8)])
    assert any(line.endswith("checkpoint-7.") for line in lines)
    other = {"network.classifier.weight": torch.zeros(7, 64)}
    weights = load_file(checkpoint / "model.safetensors")
    for changed, problem in (({**weights, **other}, r"has shape \[7, 64\]"), ({}, "has shape None")):
        save_file(changed, checkpoint / "model.safetensors", {"format": "pt"})
        with pytest.raises(CoreError, match=problem) as caught:
            train(data, data[:10], encoder, tmp_path / "b", RUN, log=quiet)
        assert caught.value.code == "training.bad_checkpoint"
    (checkpoint / "trainer_state.json").write_text("{")
    with pytest.raises(CoreError) as caught:
        train(data, data[:10], encoder, tmp_path / "b", RUN, log=quiet)
    assert caught.value.code == "training.bad_checkpoint"
    assert caught.value.values["path"] == checkpoint


@pytest.mark.slow
def test_callbacks_remember_how_far_they_were(encoder, tmp_path):
    """Early stopping counts epochs without progress: broken off between two of them, it stops when it would have."""
    data = sentences()[:24]
    # Three steps an epoch; it learns nothing, so each epoch after the first counts.
    settings = RUN.replace(learning_rate=1e-9, epochs=9)
    ends = []
    for name, stops in (("whole", ()), ("broken", (7,))):
        for stop in (*stops, None):
            callbacks = [EarlyStoppingCallback(2), *([] if stop is None else [Stop(stop)])]
            try:
                ends.append(
                    train(data, data[:10], encoder, tmp_path / name, settings, log=quiet, callbacks=callbacks).steps
                )
            except KeyboardInterrupt:
                assert stop
    assert ends == [9, 9]


def test_a_disk_that_fills_up_is_told(encoder, tmp_path, monkeypatch):
    def full(*arguments, **options):
        raise RuntimeError("PytorchStreamWriter failed writing file data/3: file write failed")

    monkeypatch.setattr("transformers.trainer.torch.save", full)
    with pytest.raises(CoreError, match="file write failed") as caught:
        train(sentences(), sentences()[:10], encoder, tmp_path / "b", RUN, log=quiet)
    assert caught.value.code == "training.folder_not_writable"

"""Runs that break off, go on, or must not go on; in this process. Real kills are in tests/faults/test_training.py."""

import json
import shutil
from dataclasses import replace
from functools import partial
from itertools import chain

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import EarlyStoppingCallback, TrainerCallback

from spanmarker_core.bundle.config import packer_of
from spanmarker_core.data import Sentence, Span
from spanmarker_core.errors import CoreError
from spanmarker_core.training import SentenceWindows, TrainingSettings, search_trainer, train
from spanmarker_core.training.collate import Examples
from spanmarker_core.training.initialise import new_model
from spanmarker_core.training.loss import SpanLoss
from tests.spanmarker_core.training.test_training import SETTINGS, encoder, quiet, sentences
from tests.support.variants import some_by_default

__all__ = ["encoder"]  # the fixture

RUN = SETTINGS.replace(batch_size=8, epochs=3)  # steps of 8, 8, 8, 8, 8, 8 and 2 windows: 7 an epoch


class Losses(TrainerCallback):
    """Keeps the loss of each step."""

    def __init__(self):
        self.losses = []

    def on_step_end(self, args, state, control, **kwargs):
        control.should_log = True

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in logs:
            self.losses.append(logs["loss"])


class Stop(TrainerCallback):
    """Ends the run before a step, as Ctrl-C does."""

    def __init__(self, step):
        self.step = step

    def on_step_begin(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            raise KeyboardInterrupt


def losses(folder, encoder, settings, data=None):
    kept = Losses()
    data = data or sentences()
    train(data, data[:10], encoder, folder, settings, log=quiet, callbacks=[kept])
    return kept.losses


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
    assert [line.split("checkpoint-")[1] for line in lines if line.startswith("Going on")] == [
        f"{start}." for start in starts if start
    ]
    # Each try goes on after its checkpoint; steps that were done after the last checkpoint come again, as they were.
    again = [expected[start:stop] for start, stop in zip([0, *starts], [*stops, 21], strict=True)]
    assert seen.losses == list(chain.from_iterable(again))
    assert result.steps == 21
    weights, others = (load_file(path / "model.safetensors") for path in (tmp_path / "b", bundle))
    assert all(torch.equal(weights[name], others[name]) for name in others)
    assert not (tmp_path / "b.training").exists()


def test_a_run_that_ended_before_its_bundle_was_written_only_writes_it(encoder, whole, tmp_path, monkeypatch):
    data = sentences()

    def full(*arguments, **options):
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("spanmarker_core.training.checkpoints.os.replace", full)
        patch.setattr("spanmarker_core.training.checkpoints._write", lambda path, text: path.write_text(text))
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


@pytest.mark.parametrize(
    "options", some_by_default([{}, {"gate": True, "gate_share": 0.3}, {"pair_layers": 1}], [{}]), ids=str
)
def test_parts_and_checkpointed_states_change_no_loss(options, encoder, tmp_path):
    """Dropout is drawn a part, so that it is off here: what is left is the order of sums."""
    for part in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
        assert json.loads((encoder / "config.json").read_text())[part] == 0.1
    calm = shutil.copytree(encoder, tmp_path / "calm")
    config = json.loads((calm / "config.json").read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (calm / "config.json").write_text(json.dumps(config))
    settings, data = RUN.replace(epochs=1, **options), sentences()[:20]
    expected = losses(tmp_path / "whole", calm, settings, data)
    for parts in (3, 9)[: 2 - bool(options)]:
        found = losses(tmp_path / f"{parts}", calm, settings.replace(accumulation=parts), data)
        assert found == pytest.approx(expected, rel=2e-5)


@pytest.mark.parametrize("pair_layers", [None, 1, 0])
def test_checkpointed_markers_have_the_gradients_of_kept_ones(encoder, pair_layers, monkeypatch):
    """With dropout, in chunks of few spans, and less memory kept for the way back."""
    settings = RUN.replace(pair_layers=pair_layers, gate=True)
    torch.manual_seed(0)
    config, network, tokenizer = new_model(encoder, ["location", "person"], settings)
    examples = Examples(SentenceWindows(sentences(), packer_of(config, tokenizer), settings.shown), 3)
    monkeypatch.setattr(network, "spans_a_chunk", lambda text, spans: 20)
    model = SpanLoss(network, 0.2).train()

    def count(sizes, tensor):
        sizes.append(tensor.numel())
        return tensor

    kept, gradients = [], []
    for network.checkpoint_spans in (False, True):
        sizes = []
        torch.manual_seed(1)
        with torch.autograd.graph.saved_tensors_hooks(partial(count, sizes), lambda tensor: tensor):
            loss = model(**examples.batch(np.arange(12)))["loss"]
        loss.backward()
        kept.append(sum(sizes))
        gradients.append({name: weight.grad.clone() for name, weight in model.named_parameters()})
        model.zero_grad()
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, rtol=1e-5, atol=1e-7)
    assert kept[1] < 0.5 * kept[0]


def test_bf16_learns_and_is_no_bundle_of_bf16(encoder, tmp_path):
    settings = RUN.replace(gate=True, epochs=1)
    exact = losses(tmp_path / "exact", encoder, settings)
    rough = losses(tmp_path / "rough", encoder, settings.replace(precision="bf16"))
    assert rough != exact
    assert rough == pytest.approx(exact, rel=0.1)
    assert {weight.dtype for weight in load_file(tmp_path / "rough" / "model.safetensors").values()} == {torch.float32}


@pytest.mark.skipif(torch.cuda.is_available(), reason="is for machines without a GPU")
def test_what_a_device_cannot_do_is_refused(encoder, tmp_path):
    data = sentences()
    with pytest.raises(CoreError) as caught:
        train(data, data, encoder, tmp_path / "b", RUN.replace(precision="fp16"), log=quiet)
    assert caught.value.code == "training.no_precision"
    assert (caught.value.values["precision"], caught.value.values["other"]) == ("fp16", "bf16")
    with pytest.raises(CoreError) as caught:
        RUN.replace(precision="int8")
    assert caught.value.code == "call.unknown_option"
    assert (caught.value.values["option"], caught.value.values["value"]) == ("precision", "int8")


@pytest.mark.parametrize("kind", ["FSDP", "DEEPSPEED"])
def test_weights_that_are_to_be_shared_out_are_refused(kind, encoder, tmp_path, monkeypatch):
    """Processes have different numbers of marker chunks, and would wait for each other for ever."""
    monkeypatch.setenv(f"ACCELERATE_USE_{kind}", "true")
    with pytest.raises(CoreError, match=kind) as caught:
        train(sentences(), sentences()[:10], encoder, tmp_path / "b", RUN, log=quiet)
    assert caught.value.code == "training.no_sharding"


def test_steps_of_tokens(encoder, tmp_path):
    """Sentences of six to eight tokens: steps of six."""
    result = train(
        sentences(), sentences()[:10], encoder, tmp_path / "b", RUN.replace(batch_tokens=45, epochs=1), log=quiet
    )
    assert 8 <= result.steps <= 10


class Poison(TrainerCallback):
    """Puts a NaN into a weight or its gradient before step 4."""

    def __init__(self, where):
        self.where = where

    def on_step_begin(self, args, state, control, model=None, **kwargs):
        if state.global_step == 3:
            weight = model.network.classifier.weight
            if self.where == "weight":
                weight.data[0, 0] = float("nan")
            else:
                weight.register_hook(lambda gradient: gradient * float("nan"))


@pytest.mark.parametrize(("where", "what"), [("weight", "the loss"), ("gradient", "the gradient")])
def test_what_is_not_finite_stops_the_run_and_names_the_batch(where, what, encoder, tmp_path):
    data = sentences()
    with pytest.raises(CoreError) as caught:
        train(data, data[:10], encoder, tmp_path / "b", RUN, log=quiet, callbacks=[Poison(where)])
    assert caught.value.code == "training.not_finite"
    assert (caught.value.values["what"], caught.value.values["step"]) == (what, 4)
    named = caught.value.values["windows"].split("; ")
    known = {f"document {sentence.document_id}, sentence {sentence.sentence_id}" for sentence in data}
    assert len(named) == 8
    assert set(named) <= known
    assert not (tmp_path / "b").exists()


def test_data_that_nothing_can_be_learned_from(encoder, tmp_path):
    data = sentences()[:6]
    twice = [*data, data[2]]
    blank = [Sentence("a", 0, ["\u2063"], [Span(0, 1, "person")])]
    for arguments, code, subject in [
        (([], data), "data.empty", "the training data"),
        ((data, []), "data.empty", "the dev data"),
        (([replace(sentence, entities=[]) for sentence in data], data), "data.no_entities", "the training data"),
        ((twice, data), "data.duplicate_sentence", f"document {data[2].document_id}, sentence 0"),
        ((data, twice), "data.duplicate_sentence", f"document {data[2].document_id}, sentence 0"),
        ((blank, [*data, *blank]), "data.no_windows", "the training data"),
    ]:
        with pytest.raises(CoreError) as caught:
            train(*arguments, encoder, tmp_path / "b", RUN, log=quiet)
        assert caught.value.code == code
        assert subject in caught.value.values.values()
    with pytest.raises(CoreError, match=r"data\.duplicate_sentence"):
        train(data, data, encoder, tmp_path / "b", RUN, test_sentences=twice, log=quiet)


def test_one_class_is_enough(encoder, tmp_path):
    data = [
        replace(sentence, entities=[Span(e.start, e.end, "name") for e in sentence.entities])
        for sentence in sentences()
    ]
    result = train(
        data, data[:20], encoder, tmp_path / "b", RUN.replace(learning_rate=5e-3, batch_size=4, epochs=6), log=quiet
    )
    assert result.dev.micro.f1 > 0.7
    assert list(result.dev.per_label) == ["name"]


def test_an_entity_that_no_window_holds_is_told(encoder, tmp_path):
    lines = []
    long = Sentence("long", 0, ["x" * 20, "y" * 20, "z" * 20], [Span(0, 3, "person"), Span(0, 1, "location")])
    data = [*sentences()[:6], long]
    train(data, data, encoder, tmp_path / "b", RUN.replace(epochs=1), log=lines.append)
    told = (
        "1 entities of at most 3 words fit no window of 48 tokens, or have no token at an edge, and can't be learned."
    )
    assert told in lines


def test_a_folder_for_checkpoints_that_cannot_be_is_refused_before_training(encoder, tmp_path):
    (tmp_path / "b.training").write_text("")
    with pytest.raises(CoreError, match=r"training\.folder_not_writable"):
        train(sentences(), sentences()[:10], encoder, tmp_path / "b", RUN, log=quiet)


def test_a_disk_that_fills_up_is_told(encoder, tmp_path, monkeypatch):
    def full(*arguments, **options):
        raise RuntimeError("PytorchStreamWriter failed writing file data/3: file write failed")

    monkeypatch.setattr("transformers.trainer.torch.save", full)
    with pytest.raises(CoreError, match="file write failed") as caught:
        train(sentences(), sentences()[:10], encoder, tmp_path / "b", RUN, log=quiet)
    assert caught.value.code == "training.folder_not_writable"


def test_a_search_makes_each_model_anew(encoder, tmp_path):
    """What a library for searches does with the trainer: set a trial's values, train, evaluate."""
    data, found = sentences(), []
    settings = TrainingSettings(entity_max_length=3, max_tokens=48, batch_size=8, epochs=2, seed=6, device="cpu")
    trainer = search_trainer(data, data[:10], encoder, tmp_path / "search", settings, log=quiet)
    for rate in (1e-3, 5e-3, 1e-3):
        trainer.args.learning_rate, trainer.args.num_train_epochs = rate, 1
        trainer.args.per_device_train_batch_size = 4
        trainer.train()
        assert len(trainer.steps) == 13
        assert "eval_f1" in trainer.evaluate()
        found.append(trainer.model.network.classifier.weight.detach().clone())
    assert torch.equal(found[0], found[2])  # It has nothing of what the trial before it learned.
    assert not torch.equal(found[0], found[1])
    assert not list((tmp_path / "search").rglob("checkpoint-*"))

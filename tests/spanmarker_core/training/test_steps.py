"""Training steps: accumulation, precision, size, and values that are not finite."""

from functools import partial

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import TrainerCallback

from spanmarker_core.bundle.config import packer_of
from spanmarker_core.errors import CoreError
from spanmarker_core.training import SentenceWindows, TrainingSettings, search_trainer, train
from spanmarker_core.training.collate import Examples
from spanmarker_core.training.initialise import new_model
from spanmarker_core.training.loss import SpanLoss
from tests.support.training import RUN, calm, losses, quiet, sentences
from tests.support.variants import some_by_default


@pytest.mark.parametrize("options", some_by_default([{}, {"gate": True, "gate_share": 0.3}], [{}]), ids=str)
def test_parts_and_checkpointed_states_change_no_loss(options, encoder, tmp_path):
    """Dropout differs between parts, so it is off here; only the order of sums is left."""
    settings, data = RUN.replace(epochs=1, **options), sentences()[:20]
    without = calm(encoder, tmp_path / "calm")
    expected = losses(tmp_path / "whole", without, settings, data)
    for parts in (3, 9):
        found = losses(tmp_path / f"{parts}", without, settings.replace(accumulation=parts), data)
        assert found == pytest.approx(expected, rel=2e-5)


def test_checkpointed_markers_keep_less_memory_for_the_way_back(encoder, monkeypatch):
    settings = RUN.replace(pair_layers=1, gate=True)
    config, network, tokenizer = new_model(encoder, ["location", "person"], settings)
    examples = Examples(SentenceWindows(sentences(), packer_of(config, tokenizer), settings.shown), 3)
    monkeypatch.setattr(network, "spans_a_chunk", lambda text, spans: 20)
    model = SpanLoss(network, 0.2).train()

    def count(sizes, tensor):
        sizes.append(tensor.numel())
        return tensor

    kept = []
    for network.checkpoint_spans in (False, True):
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(partial(count, sizes), lambda tensor: tensor):
            model(**examples.batch(np.arange(12)))["loss"].backward()
        kept.append(sum(sizes))
    assert kept[1] < 0.5 * kept[0]


@pytest.mark.slow
def test_bf16_learns_and_is_no_bundle_of_bf16(encoder, tmp_path):
    settings = RUN.replace(gate=True, epochs=1)
    exact = losses(tmp_path / "exact", encoder, settings)
    rough = losses(tmp_path / "rough", encoder, settings.replace(precision="bf16"))
    assert rough != exact
    assert rough == pytest.approx(exact, rel=0.1)
    assert {weight.dtype for weight in load_file(tmp_path / "rough" / "model.safetensors").values()} == {torch.float32}


@pytest.mark.slow
def test_steps_of_tokens(encoder, tmp_path):
    """Sentences of six to eight tokens: steps of six."""
    given = {name: value for name, value in RUN.given.items() if name != "batch_size"}
    settings = TrainingSettings(**{**given, "batch_tokens": 45, "epochs": 1})
    assert 8 <= len(losses(tmp_path / "b", encoder, settings)) <= 10


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


@pytest.mark.slow
def test_a_search_makes_each_model_anew(encoder, tmp_path):
    """Use the trainer as a search library does: set a trial's values, train, evaluate."""
    data, found = sentences()[:24], []
    settings = TrainingSettings(entity_max_length=3, max_tokens=48, batch_size=8, epochs=2, seed=6, device="cpu")
    trainer = search_trainer(data, data[:10], encoder, tmp_path / "search", settings, log=quiet)
    for rate in (1e-3, 5e-3, 1e-3):
        trainer.args.learning_rate, trainer.args.num_train_epochs = rate, 1
        trainer.args.per_device_train_batch_size = 4
        trainer.train()
        assert len(trainer.steps) == 6
        assert "eval_f1" in trainer.evaluate()
        found.append(trainer.model.network.classifier.weight.detach().clone())
    assert torch.equal(found[0], found[2])  # It starts from scratch, not from the previous trial.
    assert not torch.equal(found[0], found[1])
    assert not list((tmp_path / "search").rglob("checkpoint-*"))

"""Training: the learned model, its bundle, and messages about its data."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from spanmarker_core import load
from spanmarker_core.bundle.config import packer_of
from spanmarker_core.data import Sentence, Span
from spanmarker_core.errors import CoreError
from spanmarker_core.evaluation.evaluate import evaluate
from spanmarker_core.evaluation.scores.curves import GRID
from spanmarker_core.inference.tagger import Tagger
from spanmarker_core.training import train
from spanmarker_core.training.collate import Examples
from spanmarker_core.training.dataset import SentenceWindows
from spanmarker_core.training.initialise import new_model
from spanmarker_core.windows.packer import Context
from tests.support.training import SETTINGS, quiet, sentences
from tests.support.variants import some_by_default


def test_learns_what_can_be_learned_and_the_bundle_says_so(encoder, tmp_path):
    data = sentences()
    settings = SETTINGS.replace(learning_rate=5e-3, batch_size=4, epochs=8)
    result = train(data, data[:40], encoder, tmp_path / "bundle", settings, test_sentences=data[40:], log=quiet)
    assert result.dev.micro.f1 > 0.7
    model = load(tmp_path / "bundle")
    assert evaluate(model, data[:40]) == result.dev
    assert model.config.facts["dev_f1"] == round(result.dev.micro.f1, 4)
    card = (tmp_path / "bundle" / "README.md").read_text(encoding="utf-8")
    assert f"| dev | 40 | 80 | {result.dev.micro.precision:.1%}" in card
    assert "| test | 10 | 20 |" in card
    assert re.search(r'^\| location \| "\w+", "\w+", "\w+" \| 60 \| 100.0% \|$', card, re.MULTILINE)
    assert len(re.findall(r"^\| \d+ \| \d+ \| (?:\d\.\d{4})? \| [01]\.\d{4} \|", card, re.MULTILINE)) == 8
    assert f"- PyTorch: {torch.__version__}" in card


@pytest.mark.slow
def test_one_class_is_enough(encoder, tmp_path):
    data = [replace(each, entities=[replace(e, label="name") for e in each.entities]) for each in sentences()]
    settings = SETTINGS.replace(learning_rate=5e-3, batch_size=4, epochs=6)
    result = train(data, data[:20], encoder, tmp_path / "b", settings, log=quiet)
    assert result.dev.micro.f1 > 0.7
    assert list(result.dev.per_label) == ["name"]


@pytest.mark.slow
def test_the_best_epoch_is_kept(encoder, tmp_path):
    """A rate that unlearns in its last epochs what it had learned must not reach the bundle."""
    lines = []
    data = sentences()
    settings = SETTINGS.replace(learning_rate=1e-2, batch_size=4, epochs=5, seed=8)
    result = train(data, data[:40], encoder, tmp_path / "bundle", settings, log=lines.append)
    scores = [float(line.split("F1 ")[1].rstrip("%")) for line in lines if "dev F1" in line]
    assert len(scores) == 5
    assert scores[-1] < max(scores), "the run got better to its end, so it shows nothing: take another seed"
    assert 100 * result.dev.micro.f1 == pytest.approx(max(scores), abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("gate", some_by_default([False, True], [False]))
def test_the_threshold_with_the_best_f1_on_dev_goes_with_the_bundle(gate, encoder, tmp_path):
    """A model that still says "no entity" too often finds more with a threshold, and no other threshold does better."""
    data, lines = sentences(), []
    settings = SETTINGS.replace(batch_size=4, epochs=4, gate=gate, tune_threshold=True)
    result = train(data, data[:15], encoder, tmp_path / "bundle", settings, log=lines.append)
    model = load(tmp_path / "bundle")
    chosen = model.config.threshold
    config, gate_threshold = replace(model.config, threshold=None), model.gate_threshold
    without = Tagger(config, model.packer, model.network, model.device, model.dtype, gate_threshold)
    scores = {each: evaluate(without, data[:15], threshold=each).micro.f1 for each in (None, *GRID)}
    assert scores[chosen] == max(scores.values()) > scores[None]
    assert chosen == min(each for each in GRID if scores[each] == scores[chosen])
    assert evaluate(model, data[:15]).micro.f1 == result.dev.micro.f1 == scores[chosen]
    (line,) = (line for line in lines if line.startswith("score threshold"))
    assert all(value in line for value in (f" {chosen}: ", f"{scores[chosen]:.2%}", f"{scores[None]:.2%}"))
    card = (tmp_path / "bundle" / "README.md").read_text(encoding="utf-8")
    assert f"- **Score Threshold:** {chosen:g}, regardless of the score of O" in card


def test_no_threshold_where_none_is_better(encoder, tmp_path):
    data, lines = sentences(), []
    beyond = replace(data[0], entities=[Span(0, 4, "person")])  # longer than what the model scores
    settings = SETTINGS.replace(epochs=1, tune_threshold=True)
    train(data, [beyond], encoder, tmp_path / "bundle", settings, log=lines.append)
    assert load(tmp_path / "bundle").config.threshold is None
    assert "no score threshold: none improves F1 on dev, 0.00%" in lines


def test_a_training_says_what_it_cannot_learn(encoder, tmp_path):
    """Entities beyond the limit and in no window, spans of several labels; windows without a candidate are left out."""
    lines = []
    data = [
        Sentence("a", 0, ["the"] * 9, [Span(0, 9, "person"), Span(0, 1, "location")]),
        Sentence("b", 0, ["paris", "is"], [Span(0, 1, "location"), Span(0, 1, "person")]),
        Sentence("c", 0, ["x" * 20, "y" * 20, "z" * 20], [Span(0, 3, "person"), Span(0, 1, "location")]),
        Sentence("blank", 0, ["\u2063"], []),
    ]
    result = train(data, data, encoder, tmp_path / "b", SETTINGS.replace(epochs=1, batch_size=1), log=lines.append)
    assert "Out of reach: 1 (16.67%)" in lines[0]
    assert "Suggested entity_max_length: 9" in lines[0]
    assert "1 spans have several labels; training uses the first in alphabetical order." in lines
    assert (
        "1 entities of at most 3 words cannot be learned: they fit no window of 48 tokens, or their first or last word "
        "has no token."
    ) in lines
    assert result.steps == 4  # the third sentence is cut in two


@pytest.mark.parametrize("policy", ["sentence", "document"])
def test_labels_of_windows_are_the_gold_spans(encoder, policy):
    words = ["the"] * 100 + ["paris"] + ["of"] * 100
    long = Sentence("long", 0, words, [Span(100, 101, "location"), Span(0, 5, "person")])
    config, _, tokenizer = new_model(encoder, ["location", "person"], SETTINGS)
    packer = packer_of(config, tokenizer)
    examples = Examples(SentenceWindows([*sentences(), long], packer, Context(policy)), config.entity_max_length)
    labels = torch.cat([examples.batch(np.array([i]))["labels"] for i in range(len(examples))])
    gold = [config.labels.index(e.label) for sentence in sentences() for e in sentence.entities]
    gold.append(1)  # "paris" in the middle of the long one; its entity of five words is out of reach
    assert labels[labels != 0].tolist() == gold
    with pytest.raises(CoreError, match=r"data\.unknown_label"):
        SentenceWindows([Sentence("a", 0, ["x"], [Span(0, 1, "event")])], packer, Context(), config.labels[1:])


def test_evaluation_refuses_data_that_it_cannot_score(tiny):
    known = Sentence("a", 0, ["Paris"], [Span(0, 1, "location")])
    other = Sentence("b", 0, ["Paris"], [Span(0, 1, "event")])
    assert evaluate(tiny, [known, other]).micro.support == 2
    for data, code in (([other], "data.no_common_label"), ([Sentence("a", 0, ["x"], [])], "data.no_entities")):
        with pytest.raises(CoreError) as caught:
            evaluate(tiny, data)
        assert caught.value.code == code

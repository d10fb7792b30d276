"""Training with the gate: what is learned, what is measured of it, what the bundle says."""

import re

import numpy as np
import pytest
import torch

from spanmarker_core import load
from spanmarker_core.bundle.config import packer_of
from spanmarker_core.bundle.reader import read_info
from spanmarker_core.card import model_card, read_card_facts
from spanmarker_core.data import Sentence, Span
from spanmarker_core.data.windows import pack_annotated
from spanmarker_core.evaluation.evaluate import evaluate
from spanmarker_core.evaluation.gate import THRESHOLDS, GateScores, annotated_windows, best_threshold
from spanmarker_core.inference.tagger import Tagger
from spanmarker_core.spans.candidates import candidate_spans
from spanmarker_core.spans.decoding import DECODERS
from spanmarker_core.training import train
from spanmarker_core.training.collate import Examples
from spanmarker_core.training.dataset import SentenceWindows
from spanmarker_core.windows.packer import Context
from tests.support.tiny import GATE, tiny_model
from tests.support.training import SETTINGS, quiet, sentences

JOINT = SETTINGS.replace(learning_rate=5e-3, batch_size=4, epochs=8, gate=True, gate_share=0.2)


def test_learns_and_the_bundle_runs_as_it_was_trained(encoder, tmp_path):
    data, lines = sentences(), []
    settings = JOINT.replace(pair_layers=1)
    result = train(data, data[:40], encoder, tmp_path / "bundle", settings, log=lines.append)
    assert result.dev.micro.f1 > 0.7
    model = load(tmp_path / "bundle")
    assert model.config.pair_layers == 1
    gate = model.config.gate
    assert gate["trained"] == "joint"
    assert model.gate_threshold == gate["threshold"] == best_threshold(gate["curve"])
    assert [point["threshold"] for point in gate["curve"]] == list(THRESHOLDS)
    assert evaluate(model, data[:40]) == result.dev
    chosen = next(point for point in gate["curve"] if point["threshold"] == gate["threshold"])
    assert chosen["f1"] == pytest.approx(result.dev.micro.f1, abs=1e-6)
    assert "recall_of_model" not in chosen
    assert 0 < chosen["kept"] < 0.9
    assert sum(line.startswith("epoch") and "with the gate at" in line for line in lines) == JOINT.epochs
    for row in read_card_facts(tmp_path / "bundle")["log"]:  # to four digits
        harmonic = 2 * row["precision"] * row["recall"] / max(row["precision"] + row["recall"], 1e-9)
        assert row["f1"] == pytest.approx(harmonic, abs=2e-4)


@pytest.mark.slow
def test_same_seed_gives_the_same_model(encoder, tmp_path):
    data = sentences()[:12]
    settings = JOINT.replace(epochs=1)
    digests = [
        train(data, data, encoder, tmp_path / name, settings.replace(seed=seed), log=quiet).digest
        for name, seed in (("one", 3), ("two", 3), ("three", 4))
    ]
    assert digests[0] == digests[1] != digests[2]
    config = read_info(tmp_path / "one").config
    assert not {"train_seconds", "hardware", "versions"} & set(config.facts)
    card = (tmp_path / "one" / "README.md").read_text(encoding="utf-8")
    assert re.search(r"\*\*Training time:\*\* \d+ s$", card, re.MULTILINE)
    assert card == model_card(config, read_card_facts(tmp_path / "one"))


def gated_tagger(decoder="flat.v1", gate_threshold=None):
    config, network, tokenizer = tiny_model(decoder=decoder, gate={**GATE, "trained": "joint"})
    return Tagger(config, packer_of(config, tokenizer), network, torch.device("cpu"), gate_threshold=gate_threshold)


#: One span has two labels, one label the model doesn't know, one entity no window can hold.
WORDS = [["barack", "obama", "flew", "to", "paris"], ["he", "was", "in", "new", "york"], ["the", "a", "of"] * 3]
GOLD = [
    Sentence("a", 0, WORDS[0], [Span(0, 2, "person"), Span(0, 2, "work")]),
    Sentence("a", 1, WORDS[1], [Span(3, 5, "location"), Span(0, 1, "alien")]),
    Sentence("b", 0, WORDS[2], [Span(0, 9, "work"), Span(3, 4, "location")]),
]


@pytest.mark.parametrize(
    ("decoder", "lowest"), [*((decoder, None) for decoder in DECODERS), ("flat.v1", 0.0), ("flat.v1", 0.3)]
)
def test_the_curve_is_what_tagging_at_each_threshold_gives(decoder, lowest):
    model = gated_tagger(decoder, lowest)
    scores = GateScores(model, *annotated_windows(GOLD, model))
    for threshold in (0.3, 0.45, 0.5, 0.55, 0.6, 0.99):
        point = scores.at(threshold)
        at = gated_tagger(decoder, threshold)
        assert point["f1"] == pytest.approx(evaluate(at, GOLD).micro.f1, abs=1e-6)
        assert point["kept"] == pytest.approx(at.work["scored_candidates"] / at.work["candidates"], abs=1e-6)
        assert ("recall_of_model" in point) == (lowest != 0.3)


def test_recall_of_gold_counts_entities():
    """By hand: of the six gold entities one is too long and five have a span; at 0 the five pass, at 1.1 none."""
    model = gated_tagger()
    scores = GateScores(model, *annotated_windows(GOLD, model))
    assert scores.at(0.0)["recall_of_gold"] == pytest.approx(5 / 6, abs=1e-6)
    assert scores.at(1.0)["recall_of_gold"] == 0
    windows, _ = annotated_windows(GOLD, model)
    (scored,) = model.score_batches(windows)
    expected = 0
    for number, sentence in enumerate(GOLD):
        for entity in sentence.entities:
            for row in range(len(scored.spans)):
                first, last = scored.spans.first_word[row], scored.spans.last_word[row]
                own = scored.windows  # in order of length
                here = (own.word_sentence[first], own.word_index[first], own.word_index[last] + 1)
                if here == (number, entity.start, entity.end):
                    expected += min(scored.gate[first, 0], scored.gate[last, 1]) >= 0.5
    assert scores.at(0.5)["recall_of_gold"] == pytest.approx(expected / 6, abs=1e-6)


def test_no_candidates_give_a_curve_of_nothing():
    model = gated_tagger()
    scores = GateScores(model, *annotated_windows([Sentence("a", 0, ["\u2063"], [])], model))
    assert scores.at(0.5) == {"threshold": 0.5, "kept": 0, "recall_of_model": 0, "recall_of_gold": 0, "f1": 0}


def test_a_model_that_finds_nothing_gets_the_lowest_threshold():
    assert best_threshold([{"threshold": 0.01, "f1": 0.0}, {"threshold": 0.8, "f1": 0.0}]) == 0.01


def test_a_window_is_asked_for_its_own_words_and_told_the_truth_of_them():
    """A sentence of 150 words in windows of 48 tokens: words come by twice, and are asked for once as a start.

    As an end they are asked for where the window owns the last three words, since another's entities may end there.
    """
    config, _, tokenizer = tiny_model("bert", max_tokens=48, entity_max_length=3)
    packer = packer_of(config, tokenizer)
    words = ["a"] * 150
    entities = [Span(start, start + 2, "person") for start in range(0, 150, 5)]
    examples = Examples(SentenceWindows([Sentence("a", 0, words, entities)], packer, Context()), 3, share=0.0)
    windows = pack_annotated([Sentence("a", 0, words, entities)], packer, Context())
    assert len(windows) > 3
    starts, ends = np.zeros(150), np.zeros(150)
    for number in range(len(examples)):
        made = examples.batch(np.array([number]))
        window = windows.take(np.array([number]))
        index, own = window.word_index, window.word_tag
        (start_asked, end_asked), gate = made["gate_mask"].numpy().T > 0, made["gate"].numpy()
        spans = candidate_spans(window, 3)
        assert np.flatnonzero(start_asked).tolist() == np.unique(spans.first_word).tolist()
        known = [
            own[max(0, word - 2) : word + 1].all() and index[max(0, word - 2)] in (0, index[word] - 2)
            for word in range(len(index))
        ]
        assert end_asked.tolist() == known
        assert gate[start_asked, 0].tolist() == [float(word % 5 == 0) for word in index[start_asked]]
        assert gate[end_asked, 1].tolist() == [float(word % 5 == 1) for word in index[end_asked]]
        starts[index[start_asked]] += 1
        ends[index[end_asked]] += 1
    assert starts.tolist() == [1] * 150
    assert set(ends) == {0, 1}
    assert (ends == 0).sum() == 2 * (len(windows) - 1)

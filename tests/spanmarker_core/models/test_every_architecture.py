"""What holds for every architecture: it learns, is stored, and tags alike in any batch."""

import re
import tomllib

import numpy as np
import pytest
import torch

from pipelines.jobs.train import TrainJob
from spanmarker_core import load
from spanmarker_core.architectures.registry import ARCHITECTURES
from spanmarker_core.bundle.config import packer_of
from spanmarker_core.bundle.writer import save_bundle
from spanmarker_core.data import Sentence, Span
from spanmarker_core.evaluation.evaluate import evaluate
from spanmarker_core.inference.tagger import Tagger
from spanmarker_core.training import TrainingSettings, train
from spanmarker_core.training.dataset import SentenceWindows
from spanmarker_core.training.initialise import new_model
from spanmarker_core.training.run_training import _examples, _loss
from spanmarker_core.windows.packer import Context
from tests.spanmarker_core.models.networks import Case, case
from tests.support.training import quiet, sentences
from tests.support.variants import first_of_each, some_by_default

#: Cases that differ in their stored weights or in training, and cases that are tested by their loss only.
DIFFERENT = [
    case("span_marker.v1"),
    case("span_marker.v1", {"attention": "all_markers", "group": 3}),
    case("span_marker.v1", {"attention": "no_self", "positions": "random", "marker_init": "mask_and_entity"}),
    case("span_marker.v1", boundary_smoothing=0.1, gate=True, pair_layers=1),
    case("pl_marker.v1", {"group": 4}),
    case("span_ner.v1"),
    case("span_ner.v1", gate=True, gate_ends=False),
    case("bl_ner.v1", negatives=100),
    case("bl_ner.v1", {"output": "tags", "tags": "crf"}),
    case("seq_ner.v1"),
    case("dspert.v1", boundary_smoothing=0.1, head_learning_rate=3e-3),
    case("dspert.v1", {"lstm": 0, "share_weights": True, "span_layers": 1}, gate=True),
]
CASES = [
    *DIFFERENT,
    case("span_marker.v1", {"attention": "text_to_markers"}),
    case("span_marker.v1", {"attention": "no_partner", "width_size": 8, "text_features": True}),
    case("span_marker.v1", {"tags": "crf"}),
    case("span_ner.v1", {"representation": "hybrid", "word": "max", "mlp_layers": 1}, negatives=100),
    case("seq_ner.v1", {"tags": "crf"}),
    case("dspert.v1", {"span_layers": 0, "aggregation": "additive"}),
]
#: By default one case of each architecture.
TRAINED = some_by_default(DIFFERENT, first_of_each(DIFFERENT, lambda case: case.architecture))
#: Markers at random places take long to learn anything by heart.
LEARNED = some_by_default([case for case in DIFFERENT if case.options.get("positions") != "random"], DIFFERENT[:1])
#: Those that can find an entity within another.
NESTED = [case for case in CASES if case.architecture != "seq_ner.v1" and case.options.get("output") != "tags"]
SETTINGS = TrainingSettings(
    entity_max_length=4, max_tokens=48, learning_rate=3e-3, batch_size=4, epochs=20, seed=3, device="cpu"
)


def settings_of(case: Case) -> TrainingSettings:
    return SETTINGS.replace(architecture=case.architecture, options=case.options, **case.fields)


def made(case, encoder, data):
    """A new model with its loss and what it learns from."""
    settings = settings_of(case)
    torch.manual_seed(5)
    config, network, tokenizer = new_model(encoder, ["location", "person"], settings)
    packer = packer_of(config, tokenizer)
    examples = _examples(SentenceWindows(data, packer, Context(), ["location", "person"]), settings)
    return config, packer, _loss(network, settings), examples


def test_each_is_here():
    assert {case.architecture for case in CASES} == set(ARCHITECTURES)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradient_reaches_every_weight(case, encoder):
    _, _, loss, examples = made(case, encoder, sentences())
    loss.train()(**examples.batch(np.arange(8)))["loss"].backward()
    missing = [name for name, weight in loss.named_parameters() if weight.grad is None]
    still = [name for name, weight in loss.named_parameters() if weight.grad is not None and not weight.grad.any()]
    assert missing == []
    assert still == []


def nested_sentences() -> list[Sentence]:
    """The words say the label: a name is a person, a name between "the" and "city" lies in a location."""
    made = []
    for number, name in enumerate(["obama", "barack", "paris", "london"]):
        words = ["the", name, "city", "of", name]
        inside = [Span(0, 3, "location"), Span(1, 2, "person"), Span(4, 5, "person")]
        made.append(Sentence(f"d{number}", 0, words, inside))
    return made


@pytest.mark.parametrize("case", LEARNED, ids=str)
def test_it_learns_a_batch_by_heart_and_a_bundle_keeps_it(case, encoder, tmp_path):
    nested = case in NESTED
    data = nested_sentences() if nested else sentences()[:8]
    config, packer, loss, examples = made(case, encoder, data)
    example = examples.batch(np.arange(len(examples)))
    optimiser = torch.optim.AdamW(loss.parameters(), lr=3e-3)
    words = [list(sentence.words) for sentence in data]
    gold = [{(span.start, span.end, span.label) for span in sentence.entities} for sentence in data]
    threshold = None if config.gate is None else 0.5
    tagger = Tagger(config, packer, loss.network, torch.device("cpu"), gate_threshold=threshold)
    decoder = "nested.v1" if nested else "flat.v1"

    def found(model):
        tagged = model.tag_words(words, decoder=decoder)
        return [{(entity.word_start, entity.word_end, entity.label) for entity in entities} for entities in tagged]

    for step in range(400):
        if step % 20 == 0 and found(tagger) == gold:
            break
        loss.train()
        optimiser.zero_grad()
        loss(**example)["loss"].backward()
        optimiser.step()
        loss.eval()
    assert found(tagger) == gold
    save_bundle(tmp_path / "bundle", config, loss.network, packer.tokenizer, "")
    model = load(tmp_path / "bundle")
    model.gate_threshold = threshold
    assert model.tag_words(words, decoder=decoder) == tagger.tag_words(words, decoder=decoder)
    for entities in model.tag_words(words, decoder="flat.v1"):
        taken = [word for entity in entities for word in range(entity.word_start, entity.word_end)]
        assert len(taken) == len(set(taken))
    everything = [entity for entities in model.tag_words(words, decoder=decoder) for entity in entities]
    assert all(0 < entity.score <= 1 for entity in everything)
    middle = sorted(entity.score for entity in everything)[len(everything) // 2]
    sure = [e for entities in model.tag_words(words, decoder=decoder, threshold=middle) for e in entities]
    assert sorted(entity.score for entity in sure)[0] >= middle


@pytest.mark.slow
@pytest.mark.parametrize("case", TRAINED, ids=str)
def test_a_run_ends_in_a_bundle_that_scores_as_it_says(case, encoder, tmp_path):
    data = sentences()[::10]
    settings = settings_of(case).replace(epochs=12, learning_rate=5e-3, tune_threshold=True)
    result = train(data, data, encoder, tmp_path / "bundle", settings, log=quiet)
    model = load(tmp_path / "bundle")
    assert result.dev.micro.predicted
    assert evaluate(model, data) == result.dev
    assert (model.config.architecture, model.config.options) == (case.architecture, dict(case.options))
    card = (tmp_path / "bundle" / "README.md").read_text(encoding="utf-8")
    assert f"({case.architecture})" in card
    # The job on the card is the one that was run.
    recipe = tomllib.loads(re.search("```toml\n(.*?)```", card, re.DOTALL).group(1))
    job = TrainJob(train="t", dev="d", encoder="e", output="o", device="cpu", **recipe)
    assert job.settings() == settings


def test_a_model_can_be_trained_to_nest(encoder, tmp_path):
    data = nested_sentences()
    settings = SETTINGS.replace(decoder="nested.v1", epochs=1)
    train(data, data, encoder, tmp_path / "bundle", settings, log=quiet)
    assert load(tmp_path / "bundle").config.decoder == "nested.v1"

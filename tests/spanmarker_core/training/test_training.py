import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from spanmarker_core import load
from spanmarker_core.architectures.registry import NetworkScores
from spanmarker_core.bundle.config import packer_of
from spanmarker_core.data import Sentence, Span
from spanmarker_core.errors import CoreError
from spanmarker_core.evaluation.evaluate import evaluate
from spanmarker_core.evaluation.scores.curves import GRID
from spanmarker_core.inference.tagger import Tagger
from spanmarker_core.training import TrainingSettings, train
from spanmarker_core.training.collate import Examples
from spanmarker_core.training.dataset import SentenceWindows
from spanmarker_core.training.initialise import new_model
from spanmarker_core.training.loss import SpanLoss
from spanmarker_core.windows.packer import Context
from tests.support.tiny import tiny_encoder, tiny_tokenizer
from tests.support.variants import some_by_default

NAMES = {"obama": "person", "barack": "person", "paris": "location", "london": "location", "zürich": "location"}
PATTERNS = ["{} flew to {}", "he was in {} for {}"]


def sentences() -> list[Sentence]:
    """Sentences in which the name says the label; two names together are one longer entity."""
    made = []
    for first in NAMES:
        for second in NAMES:
            for number, pattern in enumerate(PATTERNS):
                words = pattern.format(first, second).split()
                entities = [Span(i, i + 1, NAMES[word]) for i, word in enumerate(words) if word in NAMES]
                made.append(Sentence(f"{first}-{second}", number, words, entities))
    return made


def write_encoder(path, family: str):
    from transformers import PreTrainedTokenizerFast

    tokenizer = tiny_tokenizer(family)
    special = "[UNK] [CLS] [SEP] [PAD]" if tokenizer.token_to_id("[UNK]") else "<unk> <s> </s> <pad>"
    names = dict(zip(("unk_token", "cls_token", "sep_token", "pad_token"), special.split(), strict=True))
    for mask in ("[MASK]", "<mask>"):
        if tokenizer.token_to_id(mask) is not None:
            names["mask_token"] = mask
    encoder = tiny_encoder(family, vocabulary=tokenizer.get_vocab_size())
    encoder.save_pretrained(path)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return write_encoder(tmp_path_factory.mktemp("encoder") / "bert", "bert")


SETTINGS = TrainingSettings(
    entity_max_length=3, max_tokens=48, learning_rate=3e-3, batch_size=16, epochs=6, seed=3, device="cpu"
)


def quiet(line: str) -> None:
    pass


@pytest.mark.parametrize(
    ("family", "epochs"),
    some_by_default([("bert", 8), ("roberta", 20), ("xlm-roberta", 20), ("distilbert", 20)], [("bert", 8)]),
)
def test_learns_what_can_be_learned_and_the_bundle_says_so(family, epochs, tmp_path):
    data = sentences()
    folder = write_encoder(tmp_path / "encoder", family)
    settings = SETTINGS.replace(learning_rate=5e-3, batch_size=4, epochs=epochs)
    result = train(data, data[:40], folder, tmp_path / "bundle", settings, test_sentences=data[40:], log=quiet)
    assert result.dev.micro.f1 > 0.7
    model = load(tmp_path / "bundle")
    assert evaluate(model, data[:40]) == result.dev
    assert model.config.facts["dev_f1"] == round(result.dev.micro.f1, 4)
    card = (tmp_path / "bundle" / "README.md").read_text(encoding="utf-8")
    assert f"| dev | 40 | 80 | {result.dev.micro.precision:.1%}" in card
    assert "| test | 10 | 20 |" in card
    assert re.search(r'^\| location \| "\w+", "\w+", "\w+" \| 60 \| 100.0% \|$', card, re.MULTILINE)
    assert len(re.findall(r"^\| \d+ \| \d+ \| (?:\d\.\d{4})? \| [01]\.\d{4} \|", card, re.MULTILINE)) == epochs
    assert f"- PyTorch: {torch.__version__}" in card


def test_same_seed_same_weights_another_seed_other_weights(encoder, tmp_path):
    data = sentences()
    settings = SETTINGS.replace(epochs=1)
    results = [
        train(data, data[:10], encoder, tmp_path / str(n), settings.replace(seed=seed), log=quiet)
        for n, seed in enumerate([5, 5, 6])
    ]
    weights = [load(tmp_path / str(n)).network.state_dict() for n in range(3)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert not torch.equal(weights[0]["classifier.weight"], weights[2]["classifier.weight"])
    assert results[0].dev == results[1].dev


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
    (line,) = (line for line in lines if line.startswith("threshold:"))
    assert line.endswith(
        f"of {chosen} or more, best on dev with F1 {scores[chosen]:.2%}; without one {scores[None]:.2%}"
    )
    card = (tmp_path / "bundle" / "README.md").read_text(encoding="utf-8")
    assert f"- **Score Threshold:** {chosen:g}, whatever O scores" in card


def test_no_threshold_where_none_is_better(encoder, tmp_path):
    data, lines = sentences(), []
    beyond = replace(data[0], entities=[Span(0, 4, "person")])  # longer than what the model scores
    settings = SETTINGS.replace(epochs=1, tune_threshold=True)
    train(data, [beyond], encoder, tmp_path / "bundle", settings, log=lines.append)
    assert load(tmp_path / "bundle").config.threshold is None
    assert "threshold: none, which has the best F1 on dev, 0.00%" in lines


def test_reports_what_the_limit_makes_unreachable(encoder, tmp_path):
    lines = []
    data = [Sentence("a", 0, ["the"] * 9, [Span(0, 9, "person"), Span(0, 1, "location")])] * 1
    train(data, data, encoder, tmp_path / "b", SETTINGS.replace(epochs=1), log=lines.append)
    assert "Out of reach: 1 (50.00%)" in lines[0]
    assert "Suggested entity_max_length: 9" in lines[0]


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


def test_windows_without_candidates_are_left_out(encoder, tmp_path):
    data = [*sentences()[:3], Sentence("blank", 0, ["\u2063"], [])]
    result = train(data, data, encoder, tmp_path / "b", SETTINGS.replace(epochs=1, batch_size=1), log=quiet)
    assert result.steps == 3


def test_several_labels_on_a_span_are_told(encoder, tmp_path):
    lines = []
    data = [Sentence("a", 0, ["paris", "is"], [Span(0, 1, "location"), Span(0, 1, "person")])]
    train(data, data, encoder, tmp_path / "b", SETTINGS.replace(epochs=1), log=lines.append)
    assert "1 spans have several labels; the first by name is learned." in lines


def test_evaluation_refuses_data_that_it_cannot_score(tiny):
    known = Sentence("a", 0, ["Paris"], [Span(0, 1, "location")])
    other = Sentence("b", 0, ["Paris"], [Span(0, 1, "event")])
    assert evaluate(tiny, [known, other]).micro.support == 2
    for data, code in (([other], "data.no_common_label"), ([Sentence("a", 0, ["x"], [])], "data.no_entities")):
        with pytest.raises(CoreError) as caught:
            evaluate(tiny, data)
        assert caught.value.code == code


def test_loss_by_hand():
    class Fixed(torch.nn.Module):
        def forward(self, batch):
            gate = torch.tensor([[0.0, 2.0], [5.0, 5.0]], dtype=torch.float64)
            return NetworkScores(
                torch.tensor([[0.0, 0.0], [2.0, 0.0]], dtype=torch.float64), None, gate if self.gated else None
            )

    class Nothing:
        def to(self, device):
            return self

    network = Fixed()
    network.gated = False
    targets = torch.tensor([[0.0, 1.0], [1.0, 1.0]], dtype=torch.float64)
    asked = torch.tensor([[1.0, 1.0], [0.0, 0.0]], dtype=torch.float64)
    spans = (0.6931471805599453 + 0.1269280110429726) / 2
    loss = SpanLoss(network, 0.2)(Nothing(), torch.tensor([1, 0]), targets, asked)["loss"]
    assert float(loss) == pytest.approx(spans, abs=1e-12)
    network.gated = True  # -log(1 - sigmoid(0)) and -log(sigmoid(2)); the second word isn't asked for
    loss = SpanLoss(network, 0.2)(Nothing(), torch.tensor([1, 0]), targets, asked)["loss"]
    assert float(loss) == pytest.approx(0.2 * (0.6931471805599453 + 0.1269280110429726) / 2 + 0.8 * spans, abs=1e-12)


def test_refusals(encoder, tmp_path):
    data = sentences()[:5]
    bare = [Sentence("a", 0, ["x"], [])]
    other = [Sentence("a", 0, ["x"], [Span(0, 1, "event")])]
    for arguments, settings, code in [
        ((bare, bare), SETTINGS, "data.no_entities"),
        ((data, bare), SETTINGS, "data.no_entities"),
        ((data, other), SETTINGS, "data.no_common_label"),
        ((data, data), TrainingSettings(max_tokens=500), "encoder.window_too_long"),
    ]:
        with pytest.raises(CoreError) as caught:
            train(*arguments, encoder, tmp_path / "new", settings, log=quiet)
        assert caught.value.code == code
    for test, code in ((bare, "data.no_entities"), (other, "data.no_common_label")):
        with pytest.raises(CoreError) as caught:
            train(data, data, encoder, tmp_path / "new", SETTINGS, test_sentences=test, log=quiet)
        assert caught.value.code == code
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(CoreError, match=r"bundle\.output_exists"):
        train(data, data, encoder, tmp_path / "full", SETTINGS, log=quiet)

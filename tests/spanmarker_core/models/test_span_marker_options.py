"""The thesis's ablations and experiments: against dense references, masks by hand, and as invariants."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerFast

from spanmarker_core import load
from spanmarker_core.architectures.options import ATTENTIONS
from spanmarker_core.bundle.config import packer_of
from spanmarker_core.bundle.config_checks import check_config
from spanmarker_core.data import Sentence, Span
from spanmarker_core.errors import UnusableError
from spanmarker_core.evaluation.evaluate import evaluate
from spanmarker_core.models.batch import Batch
from spanmarker_core.models.span_marker import _random_positions
from spanmarker_core.spans.candidates import Spans, candidate_spans
from spanmarker_core.training import TrainingSettings, train
from spanmarker_core.windows.packer import Context
from tests.spanmarker_core.models.test_model import SENTENCES, batch_of, dense_encoder
from tests.spanmarker_core.models.test_pairing_and_gate import dense_late_logits
from tests.support.tiny import FAMILIES, GATE, tiny_encoder, tiny_model, tiny_tokenizer
from tests.support.variants import pairs, some_by_default

JOINT = ("text_to_markers", "all_markers")
#: One of each, and together.
CASES = [
    {"attention": "text_to_markers"},
    {"attention": "text_to_markers", "group": 3, "text_features": True},
    {"attention": "no_diagonal"},
    {"attention": "no_self"},
    {"attention": "no_partner"},
    {"attention": "all_markers"},
    {"attention": "all_markers", "group": 3, "positions": "random"},
    {"positions": "random"},
    {"width_size": 8},
    {"text_features": True},
    {"attention": "no_self", "positions": "random", "width_size": 3, "text_features": True},
]
#: By default each value at least once.
SOME = some_by_default(CASES, [CASES[1], CASES[2], CASES[4], CASES[6], CASES[-1]])
#: Windows with one span, some, and more than fit one sample of 128 where spans have up to six words.
WORDS = SENTENCES
LIMITS = {"entity_max_length": 6, "max_tokens": 60}


def case_name(options):
    if isinstance(options, str):
        return options
    return ",".join(f"{name}={value}" for name, value in options.items()) or "default"


def made(options, family="bert", architecture="span_marker.v1", **overrides):
    config, network, tokenizer = tiny_model(family, architecture=architecture, options=options, **LIMITS, **overrides)
    return config, network, packer_of(config, tokenizer)


def windows_of(packer):
    return packer.pack(packer.encode_words(WORDS), Context("document", 1, 1))


def figure_mask(attention, t, s):
    """Figure 3.1: text, then all start markers, then all end markers; [t + 2s, t + 2s], who sees whom."""
    seen = torch.zeros(t + 2 * s, t + 2 * s, dtype=torch.bool)
    seen[:, :t] = True
    markers, diagonal = seen[t:, t:], torch.eye(s, dtype=torch.bool)
    if attention not in ("no_diagonal", "no_self"):
        markers[:s, :s] |= diagonal
        markers[s:, s:] |= diagonal
    if attention not in ("no_diagonal", "no_partner"):
        markers[:s, s:] |= diagonal
        markers[s:, :s] |= diagonal
    if attention == "all_markers":
        markers[:] = True
    if attention == "text_to_markers":
        seen[:t, t:] = True
    return seen


def dense_logits(network, config, batch, attention="paired", group=128, positions=None, text_features=False):
    """Scores by transformers' own attention, a row for each window and `group` of its spans."""
    encoder, spans = dense_encoder(network, config).to(network.classifier.weight.dtype), batch.spans
    edges = np.stack([spans.first_token, spans.last_token], axis=1).astype(np.int64)
    positions = torch.from_numpy(edges if positions is None else positions)
    features = []
    for window in range(len(batch.token_offsets) - 1):
        text = batch.token_ids[batch.token_offsets[window] : batch.token_offsets[window + 1]]
        t = len(text)
        for start in range(spans.offsets[window], spans.offsets[window + 1], group):
            end = min(start + group, spans.offsets[window + 1])
            s = end - start
            ids = [*text, *[config.start_marker_id] * s, *[config.end_marker_id] * s]
            places = torch.cat([torch.arange(t), positions[start:end, 0], positions[start:end, 1]])
            seen = figure_mask(attention, t, s)
            states = encoder(
                input_ids=torch.tensor([ids]),
                position_ids=places[None] + config.position_offset,
                attention_mask=torch.where(seen, 0.0, torch.finfo(torch.float32).min)[None, None],
            ).last_hidden_state[0]
            parts = [states[t : t + s], states[t + s :]]
            if text_features:
                parts += [states[edges[start:end, 0]], states[edges[start:end, 1]]]
            features.append(torch.cat(parts, dim=-1))
    features = torch.cat(features)
    if network.widths is not None:
        widths = network.widths.weight[torch.from_numpy(spans.last_word - spans.first_word)]
        features = torch.cat([features, widths], dim=-1)
    return network.classifier(features)


def expected_logits(network, config, batch, options):
    positions = None
    if options.get("positions") == "random":
        positions = splitmix_positions(batch)
    return dense_logits(
        network,
        config,
        batch,
        options.get("attention", "paired"),
        options.get("group", 128),
        positions,
        options.get("text_features", False),
    )


def splitmix_positions(batch):
    """Random positions in plain integers: a hash of the window's tokens, then of it, the span's edges and the kind."""
    mask = 2**64 - 1

    def mixed(*values):
        state = 0
        for value in values:
            state = ((state ^ int(value)) + 0x9E3779B97F4A7C15) & mask
            state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & mask
            state = (state ^ state >> 27) * 0x94D049BB133111EB & mask
            state ^= state >> 31
        return state

    positions, spans = [], batch.spans
    for window in range(len(batch.token_offsets) - 1):
        text = batch.token_ids[batch.token_offsets[window] : batch.token_offsets[window + 1]].tolist()
        seed = sum(mixed(token, place) for place, token in enumerate(text)) & mask
        for row in range(spans.offsets[window], spans.offsets[window + 1]):
            edges = spans.first_token[row], spans.last_token[row]
            positions.append([(mixed(seed, *edges, kind) >> 11) * len(text) >> 53 for kind in (0, 1)])
    return np.array(positions)


@pytest.mark.parametrize(("options", "family"), pairs(CASES, FAMILIES), ids=case_name)
def test_equals_a_dense_reference(family, options):
    config, network, packer = made(options, family)
    network.double()
    batch = batch_of(windows_of(packer), config)
    assert max(np.diff(batch.spans.offsets)) > 128 > min(np.diff(batch.spans.offsets)) == 1
    with torch.no_grad():
        found, expected = network(batch).logits, expected_logits(network, config, batch, options)
    assert expected.std() > 0.3
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=0)


def test_attention_and_positions_differ_from_the_default_and_from_each_other():
    outputs = []
    several = [{}, *({"attention": attention} for attention in ATTENTIONS[1:]), {"positions": "random"}]
    for options in [*several, {"attention": "all_markers", "group": 5}, {"attention": "text_to_markers", "group": 5}]:
        config, network, packer = made(options)
        batch = batch_of(windows_of(packer), config)
        with torch.no_grad():
            outputs.append(network(batch).logits)
    differences = torch.cdist(torch.stack(outputs).flatten(1), torch.stack(outputs).flatten(1), p=torch.inf)
    assert differences[~torch.eye(len(outputs), dtype=torch.bool)].min() > 1e-3


def test_options_at_their_defaults_change_nothing():
    defaults = {"attention": "paired", "group": None, "positions": "words", "width_size": 0, "text_features": False}
    outputs = []
    for options in ({}, defaults, {"marker_init": "mask_and_entity"}):
        config, network, packer = made(options)
        with torch.no_grad():
            outputs.append(network(batch_of(windows_of(packer), config)).logits)
    assert torch.equal(outputs[0], outputs[1])
    assert torch.equal(outputs[0], outputs[2])


def three_tokens_two_spans():
    """Spans of words 0 and 0-1."""
    first, last = np.array([0, 0]), np.array([0, 1])
    words = torch.arange(3)
    spans = Spans(np.array([0, 2]), first, last, first, last)
    offsets, yes = np.array([0, 3]), np.ones(3, np.bool_)
    return Batch(words, offsets, words, words, spans, offsets, np.array([False]), yes, yes)


@pytest.mark.parametrize("options", SOME, ids=case_name)
def test_chunks_change_nothing(options):
    config, network, packer = made(options)
    batch = batch_of(windows_of(packer), config)
    with torch.no_grad():
        expected = network(batch).logits
        for size in (1, 7, 64, 300, 10_000):
            torch.testing.assert_close(network(batch, spans_a_chunk=size).logits, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("options", SOME, ids=case_name)
def test_batch_composition_and_order_change_nothing(options):
    config, network, packer = made(options)
    windows = windows_of(packer)
    offsets = candidate_spans(windows, config.entity_max_length).offsets
    with torch.no_grad():
        whole = network(batch_of(windows, config)).logits
        for members in ([3], [4, 1], [2, 0, 3, 1]):
            part = network(batch_of(windows.take(np.array(members)), config)).logits
            expected = torch.cat([whole[offsets[i] : offsets[i + 1]] for i in members])
            torch.testing.assert_close(part, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("options", SOME, ids=case_name)
def test_windows_without_spans_are_none_of_its_business(options):
    config, network, packer = made(options)
    words = [["\u2063"], WORDS[2], ["\u2063"], ["\u2063"], WORDS[3], ["\u2063"]]
    windows = packer.pack(packer.encode_words(words), Context())
    with torch.no_grad():
        found = network(batch_of(windows, config)).logits
        alone = network(batch_of(windows.take(np.array([1, 4])), config)).logits
        torch.testing.assert_close(found, alone, atol=1e-5, rtol=0)
        nothing = network(batch_of(windows.take(np.array([0])), config)).logits
    assert nothing.shape == (0, len(config.labels))


@pytest.mark.parametrize("options", SOME, ids=case_name)
def test_gradient_reaches_every_parameter(options):
    config, network, packer = made(options)
    network.train()
    windows = windows_of(packer)
    network(batch_of(windows, config)).logits.square().sum().backward()
    without = [name for name, p in network.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert without == []
    network.zero_grad()
    batch = batch_of(windows, config)
    nothing = replace(batch, spans=batch.spans.take(np.zeros(0, np.int64)))
    network(nothing).logits.sum().backward()
    assert [name for name, p in network.named_parameters() if p.grad is None] == []


@pytest.mark.parametrize("options", SOME, ids=case_name)
def test_checkpointing_keeps_the_gradient(options):
    config, network, packer = made(options)
    network.train()
    for module in network.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    network.encoder.config.attention_probs_dropout_prob = 0.0
    batch, gradients = batch_of(windows_of(packer), config), []
    for network.checkpoint_spans in (False, True):
        network.zero_grad()
        network(batch, spans_a_chunk=150).logits.square().mean().backward()
        gradients.append(torch.cat([p.grad.flatten() for p in network.parameters()]))
    torch.testing.assert_close(*gradients, atol=1e-5, rtol=1e-4)


def test_random_positions_are_drawn_from_the_window_alike_to_all_of_it():
    config, _, packer = made({"positions": "random"})
    # Two windows that are equal, one that is not.
    windows = packer.pack(packer.encode_words([WORDS[4], WORDS[1], WORDS[4]]), Context())
    batch = batch_of(windows, config)
    lengths, n_spans = np.diff(batch.token_offsets), np.diff(batch.spans.offsets)
    tokens = np.stack([batch.spans.first_token, batch.spans.last_token], axis=1)
    found = _random_positions(batch, (0, 3), n_spans, tokens)
    assert found.tolist() == splitmix_positions(batch).tolist()
    assert (found >= 0).all()
    assert (found < np.repeat(lengths, n_spans)[:, None]).all()
    assert found[: n_spans[0]].tolist() == found[-n_spans[2] :].tolist()
    # As often at each place, of start and of end, apart from each other and from the span's own.
    many = np.stack(np.meshgrid(np.arange(200), np.arange(200)), axis=-1).reshape(-1, 2)
    start, end = _random_positions(batch, (0, 1), np.array([len(many)]), many).T
    for drawn in (start, end):
        counts = np.bincount(drawn, minlength=lengths[0])
        assert abs(counts / len(many) * lengths[0] - 1).max() < 0.15
        assert abs(np.corrcoef(drawn, many[:, 0])[0, 1]) < 0.02
    assert abs(np.corrcoef(start, end)[0, 1]) < 0.02


def test_random_positions_go_together_with_late_pairing():
    config, network, packer = made({"positions": "random"}, pair_layers=1)
    batch = batch_of(windows_of(packer), config)
    first, last = splitmix_positions(batch).T
    moved = replace(batch.spans, first_token=first, last_token=last)
    with torch.no_grad():
        expected = dense_late_logits(network, config, replace(batch, spans=moved), 1)
        torch.testing.assert_close(network(batch).logits, expected, atol=1e-5, rtol=0)


def test_features_by_hand():
    """Spans of words 0 and 0-1: 2 · 32 states of markers, 2 · 32 of the text, 3 for the length."""
    config, network, _ = made({"text_features": True, "width_size": 3})
    batch = three_tokens_two_spans()
    with torch.no_grad():
        text = network.encode_text(batch)
        found = network.encode_spans(batch, batch.spans, text, 0, 2)
        plain = made({})[1]
        markers = plain.encode_spans(batch, batch.spans, plain.encode_text(batch), 0, 2)
    assert found.shape == (2, 4 * 32 + 3) == (2, network.feature_size(network.options, 32))
    assert torch.equal(found[:, :64], markers)
    assert torch.equal(found[:, 64:128], torch.cat([text.states[[0, 0]], text.states[[0, 1]]], dim=-1))
    assert network.widths.weight.shape == (config.entity_max_length, 3)
    assert torch.equal(found[:, 128:], network.widths.weight[:2])


@pytest.mark.parametrize("pair_layers", [0, 1])
def test_the_features_go_with_the_gate_and_late_pairing(pair_layers):
    options = {"text_features": True, "width_size": 3}
    config, network, packer = made(options, pair_layers=pair_layers, gate=GATE)
    batch = batch_of(windows_of(packer), config)
    with torch.no_grad():
        every, some = network(batch), network(batch, 0.5)
    assert 0 < len(some.kept) < len(batch.spans)
    torch.testing.assert_close(some.logits, every.logits[some.kept], atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("options", "overrides", "reason"),
    [
        ({"attention": "everything"}, {}, "attention is 'everything', not one of paired, text_to_markers"),
        ({"group": 64}, {}, "group is 64, and no span sees another but with"),
        ({"attention": "all_markers", "group": 0}, {}, "group is 0, not a whole number from 1"),
        ({"width_size": -1}, {}, "width_size is -1"),
        ({"text_features": 1}, {}, "text_features is 1, not true or false"),
        ({"positions": None}, {}, "positions is None"),
        *(({"attention": name}, {"pair_layers": 1}, "pair_layers is 1, .*paired") for name in ATTENTIONS[1:]),
        *(({"attention": name}, {"gate": GATE}, "gate, and spans see each other") for name in JOINT),
    ],
)
def test_refuses_what_does_not_go_together(options, overrides, reason):
    config, _, _ = tiny_model()
    with pytest.raises(UnusableError, match=reason):
        check_config(replace(config, options=options, **overrides))


def write_encoder(path, family):
    tokenizer = tiny_tokenizer(family)
    named = {"unk_token": "[UNK]", "mask_token": "[MASK]"}
    if tokenizer.token_to_id("[UNK]") is None:
        named = {"unk_token": "<unk>"} | ({"mask_token": "<mask>"} if tokenizer.token_to_id("<mask>") else {})
    tiny_encoder(family, vocabulary=tokenizer.get_vocab_size()).save_pretrained(path)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **named).save_pretrained(path)
    return path


SETTINGS = TrainingSettings(entity_max_length=4, max_tokens=48, learning_rate=5e-3, batch_size=2, epochs=40, seed=3)


@pytest.mark.parametrize(
    "options", some_by_default([*CASES, {"marker_init": "mask_and_entity"}], [CASES[-1]]), ids=case_name
)
def test_a_new_model_is_tried_out_and_its_bundle_tags_as_it_did(options, tmp_path):
    path = write_encoder(tmp_path / "encoder", "bert")
    data = [Sentence("d", number, words, [Span(0, 1, "person")]) for number, words in enumerate(WORDS)]
    settings = SETTINGS.replace(options=options, epochs=12, tune_threshold=True)
    result = train(data, data, path, tmp_path / "bundle", settings, log=lambda line: None)
    model = load(tmp_path / "bundle")
    assert model.config.options == options
    assert (model.network.options.attention, model.network.options.positions) == (
        options.get("attention", "paired"),
        options.get("positions", "words"),
    )
    assert result.dev.micro.predicted
    assert evaluate(model, data) == result.dev


@pytest.mark.slow
def test_nested_gold_is_learned_and_given_back(tmp_path):
    """A city within an office within a person's title; a span of it all; two that lie beside each other."""
    path = write_encoder(tmp_path / "encoder", "bert")
    titles = [("obama", "paris"), ("barack", "london"), ("müller", "zürich"), ("obama", "london"), ("barack", "york")]
    data = []
    for number, (name, city) in enumerate(titles):
        words = [name, "of", "the", city, "was", "in", city]
        gold = [Span(0, 4, "person"), Span(2, 4, "work"), Span(3, 4, "location"), Span(6, 7, "location")]
        data.append(Sentence(f"d{number}", 0, words, gold))
    # In one long epoch: which of several is best would be told by the flat entities of dev.
    many = [replace(sentence, document_id=f"{sentence.document_id}-{copy}") for copy in range(60) for sentence in data]
    train(many, data, path, tmp_path / "bundle", SETTINGS.replace(epochs=1), log=lambda line: None)
    model = load(tmp_path / "bundle")
    words = [list(sentence.words) for sentence in data]
    nested, flat = (model.tag_words(words, decoder=decoder) for decoder in ("nested.v1", "flat.v1"))
    assert [{(e.word_start, e.word_end, e.label) for e in entities} for entities in nested] == [
        {(span.start, span.end, span.label) for span in sentence.entities} for sentence in data
    ]
    assert [len(entities) for entities in flat] == [2] * len(data)

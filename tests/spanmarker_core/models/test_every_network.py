"""Invariants of every network: the result for a span does not depend on what it is computed with."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from spanmarker_core import load
from spanmarker_core.bundle.writer import save_bundle
from spanmarker_core.inference.tagger import Tagger
from spanmarker_core.models.probe import check_states
from spanmarker_core.windows.packer import Context
from tests.spanmarker_core.models.networks import GATED, LONG, NETWORKS, TAGGED, WITH_EMPTY, batch_of, windows_of
from tests.support.variants import first_of_each, some_by_default

#: By default one network of each architecture, and what differs most from it.
_CHOSEN = (
    "span_marker(attention=text_to_markers,group=3,text_features=True)",
    "span_marker(attention=all_markers,group=3,positions=random)",
    "span_marker(attention=no_self,positions=random,width_size=3,text_features=True)",
    "span_marker(pair_layers=1)",
    "span_ner(representation=hybrid,word=max,mlp_layers=2,width_size=5)",
    "dspert(span_layers=1,share_weights=True,lstm=0)",
    "bl_ner(output=tags,tags=crf)",
)
_DEFAULT = [*first_of_each(NETWORKS, lambda case: case.architecture), *(c for c in NETWORKS if str(c) in _CHOSEN)]
every_network = pytest.mark.parametrize("case", some_by_default(NETWORKS, _DEFAULT), ids=str)


def scored(network, config, windows, numbers, **options):
    """Logits of the spans of some windows: (number of the window, first word of it, last word) -> logits."""
    batch = batch_of(windows.take(np.array(numbers)), config)
    with torch.no_grad():
        scores = network(batch, **options)
    rows = np.arange(len(batch.spans)) if scores.kept is None else scores.kept
    window = np.searchsorted(batch.spans.offsets, rows, "right") - 1
    begin = np.cumsum([0, *(len(windows.take(np.array([n])).word_tag) for n in numbers)])[window]
    words = (spans[rows] - begin for spans in (batch.spans.first_word, batch.spans.last_word))
    places = zip(np.array(numbers)[window].tolist(), *(each.tolist() for each in words), strict=True)
    return dict(zip(places, scores.logits, strict=True))


def assert_equal(found, expected):
    assert found.keys() == expected.keys()
    torch.testing.assert_close(
        torch.stack([found[place] for place in expected]), torch.stack(list(expected.values())), atol=1e-5, rtol=1e-5
    )


@every_network
def test_neither_batch_nor_chunk_changes_a_score(case):
    """Of windows with one span, some, more than a sample holds, and none; for one sentence each and for several."""
    config, network, packer = case.build(**LONG)
    for policy, sizes in ((Context("document", 1, 1), (64, 10_000)), (Context("block"), ())):
        windows = packer.pack(packer.encode_words([["\u2063"], *WITH_EMPTY, ["\u2063"]]), policy)
        every = list(range(len(windows)))
        expected = scored(network, config, windows, every)
        assert len(expected) > (2 if case in TAGGED else 200)
        alone = {}
        for number in every:
            alone |= scored(network, config, windows, [number])
        assert_equal(alone, expected)
        assert_equal(scored(network, config, windows, every[::-1]), expected)
        for size in sizes:
            assert_equal(scored(network, config, windows, every, spans_a_chunk=size), expected)
    few = packer.pack(packer.encode_words(WITH_EMPTY[2:4]), Context())
    for size in (1, 7):
        assert_equal(scored(network, config, few, [1, 0], spans_a_chunk=size), scored(network, config, few, [0, 1]))


def total(network, batch, **options):
    """A loss of all that a network gives."""
    scores = network(batch, **options)
    sums = scores.logits.square().sum()
    if scores.gate is not None:
        sums = sums + scores.gate.square().sum()
    if scores.tags is not None:
        chains = np.repeat(np.arange(len(batch.runs) - 1), np.diff(batch.runs))
        sums = sums + network.tags.loss(scores.tags, torch.arange(len(scores.tags)) % 7, chains)
    return sums


@every_network
def test_every_weight_has_a_gradient_with_spans_and_without(case):
    """A process whose part of a step has no span must still have a gradient for every weight."""
    config, network, packer = case.build()
    network.train()
    batch = batch_of(windows_of(packer), config)
    total(network, batch).backward()
    assert [n for n, p in network.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0] == []
    for spans in (
        replace(batch, spans=batch.spans.take(np.zeros(0, np.int64))),
        batch_of(windows_of(packer, [["a"]]), config),
        nothing := batch_of(windows_of(packer, [["\u2063"]]), config),
    ):
        if spans is nothing and case.architecture == "dspert.v1":
            break  # No LSTM has words to run over; training leaves such windows out.
        network.zero_grad()
        total(network, spans).backward()
        assert [name for name, weight in network.named_parameters() if weight.grad is None] == []
    scores = network(batch)
    # Of the spans all are scored in training, but by a model that has none to score.
    assert scores.labels is None
    assert len(scores.logits) == (0 if case.architecture == "seq_ner.v1" else len(batch.spans))
    assert network.eval()(nothing).logits.shape == (0, len(config.labels))


@every_network
def test_recomputed_states_give_the_same_gradients(case):
    config, network, packer = case.build()
    network.train()
    batch, gradients = batch_of(windows_of(packer), config), []
    for network.checkpoint_spans in (False, True):
        network.zero_grad()
        torch.manual_seed(2)
        total(network, batch, spans_a_chunk=150).backward()
        gradients.append([weight.grad.clone() for weight in network.parameters()])
    for kept, recomputed in zip(*gradients, strict=True):
        torch.testing.assert_close(recomputed, kept, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("case", GATED, ids=str)
def test_the_gate_only_leaves_out(case):
    """Spans that pass score as without a gate; those that don't are those that it says, by their ends if it has any."""
    config, network, packer = case.build()
    batch = batch_of(windows_of(packer), config)
    with torch.no_grad():
        every = network(batch)
        probabilities = every.gate.sigmoid().numpy()
        heads, ends = probabilities[batch.spans.first_word, 0], probabilities[batch.spans.last_word, 1]
        least = np.minimum(heads, ends) if case.fields["gate"].get("ends", True) else heads
        threshold = float(np.median(least))
        some = network(batch, threshold)
        expected = np.flatnonzero(least >= threshold)
        assert every.kept is None
        assert some.kept.tolist() == expected.tolist()
        assert 0 < len(expected) < len(batch.spans)
        torch.testing.assert_close(some.logits, every.logits[expected], atol=1e-5, rtol=0)
        assert len(network(batch, 1.1).logits) == 0
        torch.testing.assert_close(network(batch, 0.0).logits, every.logits, atol=1e-5, rtol=0)


@every_network
def test_a_stored_network_tags_as_it_did_and_passes_the_probe(case, tmp_path):
    config, network, packer = case.build()
    check_states(network, packer.tokenizer, config.prefix, config.suffix)
    options = {} if case in TAGGED else {"threshold": 0.03, "decoder": "all.v1"}
    expected = Tagger(config, packer, network, torch.device("cpu")).tag_words(WITH_EMPTY, **options)
    save_bundle(tmp_path / "bundle", config, network, packer.tokenizer, card="# tiny\n")
    assert load(tmp_path / "bundle").tag_words(WITH_EMPTY, **options) == expected
    assert sum(map(len, expected)) > 3
    assert {entity.label for sentence in expected for entity in sentence} <= set(config.labels) - {"O"}


@pytest.mark.parametrize("case", [GATED[0], GATED[2]], ids=str)
def test_bfloat16_is_near(case):
    config, network, packer = case.build()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    network, batch = network.to(device), batch_of(windows_of(packer), config).to(device)
    with torch.no_grad():
        exact = network(batch).logits.float()
        with torch.autocast(device.type, torch.bfloat16):
            near = network(batch).logits.float()
    assert 1e-5 < (near - exact).norm() / exact.norm() < 2e-2


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@needs_gpu
@pytest.mark.parametrize("case", [*NETWORKS, *GATED], ids=str)
def test_gpu_equals_cpu(case):
    config, network, packer = case.build()
    batch, threshold = batch_of(windows_of(packer, WITH_EMPTY), config), 0.45 if config.gate else None
    with torch.no_grad():
        here = network(batch, threshold)
        there = network.cuda()(batch.to(torch.device("cuda")), threshold)
    assert (here.kept is None) == (there.kept is None)
    assert here.kept is None or here.kept.tolist() == there.kept.tolist()
    for one, other in ((here.logits, there.logits), (here.tags, there.tags)):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(other.cpu(), one, atol=1e-4, rtol=1e-4)

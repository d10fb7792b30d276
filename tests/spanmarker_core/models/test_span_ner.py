"""SpanNER by hand and against one span at a time; SmartSpanner is it with a gate of heads."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoConfig, AutoModel

from spanmarker_core.architectures.options import SpanNerOptions, read_options
from spanmarker_core.bundle.writer import encoder_facts
from spanmarker_core.errors import UnusableError
from spanmarker_core.models.batch import Batch
from spanmarker_core.models.span_ner import SpanNerModel
from spanmarker_core.spans.candidates import Spans
from spanmarker_core.windows.packer import Context
from tests.spanmarker_core.models.networks import SPAN_NER_OPTIONS, WITH_EMPTY, batch_of, made, windows_of
from tests.support.tiny import tiny_model


def by_hand(options):
    """A model with states of 2 numbers, a batch of one window [CLS] a ##b c [SEP] with spans a, a c and c."""
    values = {"hidden_size": 2, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 2}
    encoder = AutoModel.from_config(AutoConfig.for_model("bert", vocab_size=9, max_position_embeddings=40, **values))
    config = replace(
        tiny_model()[0],
        architecture="span_ner.v1",
        options={"width_size": 1, "mlp_layers": 1, **options},
        encoder=encoder_facts(encoder.config),
    )
    model = SpanNerModel(encoder, config).double().eval()
    with torch.no_grad():
        model.widths.weight.copy_(torch.tensor([[0.1], [0.2], [0.3], [0.4]]))
    spans = Spans(
        offsets=np.array([0, 3]),
        first_word=np.array([0, 0, 1]),
        last_word=np.array([0, 1, 1]),
        first_token=np.array([1, 1, 3], np.int32),
        last_token=np.array([2, 3, 3], np.int32),
    )
    places = torch.tensor([1, 3]), torch.tensor([2, 3])
    runs, yes = np.array([0, 2]), np.array([True, True])
    batch = Batch(torch.arange(5), np.array([0, 5]), *places, spans, runs, np.array([False]), yes, yes)
    states = [[9.0, 0.0], [1.0, 5.0], [4.0, 2.0], [3.0, 7.0], [8.0, 8.0]]
    return model, batch, SimpleNamespace(states=torch.tensor(states, dtype=torch.float64))


A, B, C, CLS = [1, 5], [4, 2], [3, 7], [9, 0]
WORD = [4, 5]  # the maximum of A and B


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"word": "max"}, [[*WORD, *WORD, 0.1], [*WORD, *C, 0.2], [*C, *C, 0.1]]),
        ({"word": "edges"}, [[*A, *B, 0.1], [*A, *C, 0.2], [*C, *C, 0.1]]),
        ({"representation": "pooling"}, [[*WORD, *CLS, 0.1], [4, 7, *CLS, 0.2], [*C, *CLS, 0.1]]),
        (
            {"representation": "hybrid", "word": "max"},
            [[*WORD, *WORD, *WORD, *CLS, 0.1], [*WORD, *C, 4, 7, *CLS, 0.2], [*C, *C, *C, *CLS, 0.1]],
        ),
    ],
)
def test_representations_by_hand(options, expected):
    model, batch, text = by_hand(options)
    found = model.encode_spans(batch, batch.spans, text, 0, 3)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))
    torch.testing.assert_close(model.encode_spans(batch, batch.spans, text, 1, 2), found[1:2])


def test_the_layer_between_by_hand():
    """One unit that sums the representation [1, 5, 4, 2, 0.1] of "a" less 12: 0.1 through GELU."""
    model, batch, text = by_hand({"mlp_layers": 2, "mlp_size": 1})
    with torch.no_grad():
        model.hidden.weight.fill_(1.0)
        model.hidden.bias.fill_(-12.0)
    found = model.encode_spans(batch, batch.spans, text, 0, 1)
    expected = 0.1 * 0.5 * (1 + torch.erf(torch.tensor(0.1 / 2**0.5, dtype=torch.float64)))
    torch.testing.assert_close(found, expected[None, None])


def naive_features(network, batch, states):
    """One span at a time, from the equations."""
    options, rows, spans = network.options, [], batch.spans
    for window in range(len(batch.token_offsets) - 1):
        begin = int(batch.token_offsets[window])
        for row in range(spans.offsets[window], spans.offsets[window + 1]):
            first, last = begin + int(spans.first_token[row]), begin + int(spans.last_token[row])
            words = int(spans.first_word[row]), int(spans.last_word[row])
            if options.word == "edges":
                edges = [states[first], states[last]]
            else:
                edges = [states[batch.first_token[w] : batch.last_token[w] + 1].amax(0) for w in words]
            pooled = [states[first : last + 1].amax(0), states[begin]]
            width = network.widths.weight[words[1] - words[0]]
            parts = {"boundary": edges, "pooling": pooled, "hybrid": edges + pooled}[options.representation]
            features = torch.cat([*parts, width])
            if network.hidden is not None:
                features = torch.nn.functional.gelu(network.hidden.weight @ features + network.hidden.bias)
            rows.append(features)
    return torch.stack(rows)


@pytest.mark.parametrize(
    ("options", "family"),
    [
        *((options, "bert") for options in SPAN_NER_OPTIONS),
        *(({"representation": "hybrid", "mlp_size": 12}, family) for family in ("roberta", "distilbert")),
    ],
    ids=str,
)
def test_equals_one_span_at_a_time(options, family):
    config, network, packer = made(options, family, "span_ner.v1")
    batch = batch_of(windows_of(packer, WITH_EMPTY), config)
    with torch.no_grad():
        expected = network.classifier(naive_features(network, batch, network.encode_text(batch).states))
        found = network(batch).logits
    assert len(found) > 100
    assert expected.std() > 0.3
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


@given(
    st.lists(
        st.lists(st.sampled_from(["a", "müller", "\u2063", "xyz"]), min_size=1, max_size=9), min_size=1, max_size=4
    )
)
def test_equals_one_span_at_a_time_for_any_words(data):
    config, network, packer = HYBRID
    batch = batch_of(packer.pack(packer.encode_words(data), Context()), config)
    with torch.no_grad():
        found = network(batch).logits
        if len(batch.spans):
            expected = network.classifier(naive_features(network, batch, network.encode_text(batch).states))
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    assert len(found) == len(batch.spans)


HYBRID = made(SPAN_NER_OPTIONS[-3], architecture="span_ner.v1")


def test_lengths_beyond_the_limit_share_the_last_embedding():
    config, network, packer = made({"mlp_layers": 1}, architecture="span_ner.v1")
    windows = packer.pack(packer.encode_words([["a", "of", "the", "in", "and", "to"]]), Context())
    batch = batch_of(windows, replace(config, entity_max_length=6))
    text = network.encode_text(batch)
    with torch.no_grad():
        features = network.encode_spans(batch, batch.spans, text, 0, len(batch.spans))
    lengths = batch.spans.last_word - batch.spans.first_word
    for length, row in zip(lengths.tolist(), features, strict=True):
        torch.testing.assert_close(row[-50:], network.widths.weight[min(length, 3)])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"representation": "mean"}, "boundary, pooling, hybrid"),
        ({"word": "first"}, "max, edges"),
        ({"width_size": 0}, "integer from 1"),
        ({"mlp_layers": 3}, "from 1 to 2"),
        ({"mlp_layers": 1, "mlp_size": 150}, "mlp_layers 1 has"),
        ({"representation": "pooling", "word": "max"}, "option word is max, but representation pooling"),
        ({"output": "tags"}, "no tagging head"),
        ({"markers": True}, "not an option"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, reason):
    with pytest.raises(UnusableError, match=reason):
        read_options(SpanNerOptions, options)

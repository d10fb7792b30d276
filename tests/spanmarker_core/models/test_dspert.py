"""DSpERT: by hand, against the paper's equations span by span, and against the encoders' own layers under a mask."""

import gc
import weakref
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModel

from spanmarker_core import load
from spanmarker_core.architectures.options import DSpERTOptions, read_options
from spanmarker_core.bundle.config import packer_of
from spanmarker_core.bundle.config_checks import check_config
from spanmarker_core.bundle.writer import save_bundle
from spanmarker_core.errors import UnusableError
from spanmarker_core.inference.int8 import Int8Linear
from spanmarker_core.models.batch import Batch
from spanmarker_core.models.dspert import DSpERT
from spanmarker_core.models.encoders import encoder_layers, native_position_offset
from spanmarker_core.models.probe import check_states
from spanmarker_core.spans.candidates import Spans
from spanmarker_core.windows.packer import Context
from tests.spanmarker_core.models.networks import DSPERT_OPTIONS, SENTENCES, batch_of, dense_encoder, windows_of
from tests.spanmarker_core.models.networks import made as made_of
from tests.spanmarker_core.models.test_aggregation import naive
from tests.spanmarker_core.models.test_encoder_families import WORK, small
from tests.support.tiny import FAMILIES, GATE, NO_MARKERS, tiny_model, tiny_tokenizer
from tests.support.variants import some_by_default


def made(options, family="bert", **fields):
    return made_of(options, family, "dspert.v1", **fields)


def layer_inputs(encoder, text: torch.Tensor, offset: int) -> tuple[list[torch.Tensor], torch.Tensor]:
    """H^0 to H^(L-1), and what the encoder says at the top, of one window."""
    seen = []
    hooks = [
        layer.register_forward_pre_hook(lambda layer, args: seen.append(args[0][0]))
        for layer in encoder_layers(encoder, "the test")
    ]
    positions = torch.arange(len(text))[None] + offset
    top = encoder(input_ids=text[None], position_ids=positions).last_hidden_state[0]
    for hook in hooks:
        hook.remove()
    return seen, top


def bert_block(layer, s: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
    """SpanTrBlock(s, h, h) of equation 3 for one span: attention, FFN, residuals and norms, as BERT has them."""
    own = layer.attention.self
    query, key, value = own.query(s), own.key(h), own.value(h)
    size = own.attention_head_size
    seen = []
    for head in range(own.num_attention_heads):
        part = slice(head * size, (head + 1) * size)
        weights = (key[:, part] @ query[part] / size**0.5).softmax(dim=0)
        seen.append(weights @ value[:, part])
    out = layer.attention.output
    attended = out.LayerNorm(s + out.dense(torch.cat(seen)))
    inner = torch.nn.functional.gelu(layer.intermediate.dense(attended))
    return layer.output.LayerNorm(attended + layer.output.dense(inner))


def masked_block(layer, s: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
    """The same of any encoder: its layer with its own attention on the tokens and the span, which sees the tokens."""
    mask = torch.zeros(1, 1, len(h) + 1, len(h) + 1, dtype=s.dtype)
    mask[..., -1] = torch.finfo(s.dtype).min
    output = layer(torch.cat([h, s[None]])[None], mask)
    return (output[0] if isinstance(output, tuple) else output)[0, -1]


def lstm_steps(lstm, rows: list[torch.Tensor]) -> list[torch.Tensor]:
    """A BiLSTM (Hochreiter and Schmidhuber 1997), one step at a time."""
    directions = []
    for suffix, order in (("", rows), ("_reverse", rows[::-1])):
        w, u = getattr(lstm, f"weight_ih_l0{suffix}"), getattr(lstm, f"weight_hh_l0{suffix}")
        bias = getattr(lstm, f"bias_ih_l0{suffix}") + getattr(lstm, f"bias_hh_l0{suffix}")
        h = c = rows[0].new_zeros(lstm.hidden_size)
        made = []
        for x in order:
            i, f, g, o = (w @ x + u @ h + bias).chunk(4)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            made.append(h)
        directions.append(made if not suffix else made[::-1])
    return [torch.cat(pair) for pair in zip(*directions, strict=True)]


def reference(network: DSpERT, config, batch: Batch, block=bert_block, layers=None, norm=None) -> torch.Tensor:
    """Logits in float64, span by span and layer by layer; `layers` are those of the span Transformer."""
    options, spans = network.options, batch.spans
    encoder = dense_encoder(network, config).double()
    n_layers = encoder.config.num_hidden_layers if options.span_layers is None else options.span_layers
    heads = {name: module for name, module in network.named_children() if name not in ("encoder", "span_transformer")}
    if layers is None:
        own = encoder_layers(encoder, "the test")
        layers = own if options.share_weights else network.span_transformer.double().layers if n_layers else []
    states, order = [], []
    for window in range(len(batch.token_offsets) - 1):
        begin = batch.token_offsets[window]
        text = batch.token_ids[begin : batch.token_offsets[window + 1]]
        inputs, top = layer_inputs(encoder, text, config.position_offset)
        if n_layers == 0 and options.lstm:
            sentence = [w for w in range(len(batch.owned)) if batch.owned[w] and batch.first_token[w] >= begin]
            sentence = [w for w in sentence if batch.first_token[w] < begin + len(text)]
            tokens = range(batch.first_token[sentence[0]] - begin, batch.last_token[sentence[-1]] + 1 - begin)
            plain, top = top, top.new_zeros(len(top), options.lstm)
            for place, row in zip(
                tokens, lstm_steps(heads["lstms"].double()[0], [plain[t] for t in tokens]), strict=True
            ):
                top[place] = row
        for row in range(spans.offsets[window], spans.offsets[window + 1]):
            first, last = int(spans.first_token[row]), int(spans.last_token[row])
            edges = np.array([first]), np.array([last])
            if first == last or n_layers == 0:
                s = naive(heads["aggregation"].double(), top, *edges)[0]
            else:
                below = inputs[len(inputs) - n_layers :]
                s = naive(heads["aggregation"].double(), below[0], *edges)[0]
                for layer, h in zip(layers[len(layers) - n_layers :], below, strict=True):
                    s = block(layer, s, h[first : last + 1])
                s = s if norm is None else norm(s)
            states.append(s)
            order.append((window, spans.last_word[row] - spans.first_word[row]))
    if options.lstm and n_layers:
        # The test's windows are there for one sentence each.
        for key in sorted(set(order)):
            members = [row for row, other in enumerate(order) if other == key]
            lstm = heads["lstms"].double()[min(key[1], len(network.lstms) - 1)]
            for row, state in zip(members, lstm_steps(lstm, [states[row] for row in members]), strict=True):
                states[row] = state
    z = []
    for state, (_, width) in zip(states, order, strict=True):
        if options.width_size:
            state = torch.cat([state, heads["widths"].double().weight[width]])
        if options.ffn:
            state = (heads["ffn"].double()[1].weight @ state + heads["ffn"][1].bias).clamp(min=0)
        z.append(heads["classifier"].double()(state))
    network.float()
    return torch.stack(z).float()


@pytest.mark.parametrize("options", DSPERT_OPTIONS, ids=str)
def test_equals_the_equations_span_by_span(options):
    config, network, packer = made(options)
    batch = batch_of(windows_of(packer), config)
    with torch.no_grad():
        found, expected = network(batch).logits, reference(network, config, batch)
    assert len(found) > 100
    assert expected.std() > 0.3
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("options", some_by_default([{}, {"share_weights": True, "span_layers": 1}], [{}]), ids=str)
@pytest.mark.parametrize("family", [*FAMILIES, "roberta-prelayernorm", "xlm-roberta-xl", "ernie"])
def test_equals_the_encoders_own_layers_under_a_mask(family, options):
    if family in FAMILIES:
        config, network, packer = made(options, family)
    else:
        config, _, packer = made(options)
        encoder = small(family, config.encoder["vocab_size"])
        config = replace(config, encoder=encoder.config.to_dict(), position_offset=2)
        torch.manual_seed(1)
        network = DSpERT(encoder, config).eval()
    spans = network.span_transformer
    layers = norm = None
    if not options:
        copied = dense_encoder(network, config).double()
        layers = encoder_layers(copied, "the test")
        layers.load_state_dict(spans.layers.state_dict())
        norm = None if spans.norm is None else spans.norm.double()
    elif "layernorm" in family or family.endswith("-xl"):
        encoder = network.encoder
        norm = (encoder.LayerNorm if hasattr(encoder, "LayerNorm") else encoder.encoder.LayerNorm).double()
    batch = batch_of(windows_of(packer, SENTENCES[:4]), config)
    with torch.no_grad():
        expected = reference(network, config, batch, masked_block, layers, norm)
        torch.testing.assert_close(network(batch).logits, expected, atol=1e-5, rtol=1e-5)


def test_by_hand():
    """States of one number, norms and FFN taken out, uniform attention: a layer adds the mean of what is seen.

    H^0 = 1 2 6, so H^1 = 4 5 9 and H^2 = 10 11 15. The span of the first two, from max(1, 2) = 2, is 2 + 3/2 = 7/2 and
    then 7/2 + (4 + 5)/2 = 8; with one span layer it is max(4, 5) + (4 + 5)/2 = 19/2, with none max(10, 11).
    """
    size = {"vocab_size": 4, "hidden_size": 1, "num_hidden_layers": 2, "num_attention_heads": 1, "intermediate_size": 1}
    expected = {
        None: {(0, 0): 10, (0, 1): 8, (0, 2): 15, (1, 1): 11, (1, 2): 17, (2, 2): 15},
        1: {(0, 0): 10, (0, 1): 9.5, (0, 2): 15, (1, 1): 11, (1, 2): 16, (2, 2): 15},
        0: {(0, 0): 10, (0, 1): 11, (0, 2): 15, (1, 1): 11, (1, 2): 15, (2, 2): 15},
    }
    for share in (False, True):
        for span_layers, values in expected.items():
            if share and span_layers == 0:
                continue
            encoder = AutoModel.from_config(AutoConfig.for_model("bert", **size)).eval()
            encoder.embeddings.LayerNorm = torch.nn.Identity()
            for layer in encoder.encoder.layer:
                layer.attention.output.LayerNorm = layer.output.LayerNorm = torch.nn.Identity()
            with torch.no_grad():
                for weight in encoder.parameters():
                    weight.zero_()
                for layer in encoder.encoder.layer:
                    layer.attention.self.value.weight.fill_(1), layer.attention.output.dense.weight.fill_(1)
                encoder.embeddings.word_embeddings.weight.copy_(torch.tensor([[0.0], [1.0], [2.0], [6.0]]))
            config, _, _ = made({})
            options = {"lstm": 0, "ffn": 0, "width_size": 0, "span_layers": span_layers, "share_weights": share}
            network = DSpERT(encoder, replace(config, options=options)).eval()
            first, last = np.array(list(values)).T
            spans = Spans(np.array([0, 6]), first, last, first, last)
            places = torch.arange(3)
            offsets, yes = np.array([0, 3]), np.ones(3, np.bool_)
            batch = Batch(places + 1, offsets, places, places, spans, offsets, np.array([False]), yes, yes)
            with torch.no_grad():
                features = network.encode_spans(batch, spans, network.encode_text(batch), 0, 6)
            assert features[:, 0].tolist() == pytest.approx(list(values.values()))


def test_chunks_end_with_windows_where_spans_depend_on_each_other():
    _, network, _ = made({})
    offsets = np.array([0, 5, 5, 9, 30, 30])
    spans = Spans(offsets, *4 * [np.zeros(30, np.int64)])
    assert list(network.chunks(spans, 10)) == [(0, 9), (9, 30)]
    assert list(network.chunks(spans, 1)) == [(0, 5), (5, 9), (9, 30)]
    assert list(network.chunks(spans, 100)) == [(0, 30)]
    _, network, _ = made({"lstm": 0})
    assert list(network.chunks(spans, 10)) == [(0, 10), (10, 20), (20, 30)]


def test_an_lstm_runs_over_the_spans_of_its_sentence_alone():
    """A window for two sentences is as two, but for what the text sees: so with the text's own layers taken out."""
    config, network, packer = made({"span_layers": 1})
    apart = [["the", "city", "of", "London"], ["he", "was", "in", "Paris"]]
    both = batch_of(packer.pack(packer.encode_words(apart), Context("block")), config)
    each = batch_of(packer.pack(packer.encode_words(apart), Context()), config)
    assert (len(both.token_offsets), len(each.token_offsets)) == (2, 3)
    for layer in network.encoder.encoder.layer:
        torch.nn.init.zeros_(layer.attention.self.value.weight)
    with torch.no_grad():
        network.encoder.embeddings.position_embeddings.weight.zero_()
        torch.testing.assert_close(network(both).logits, network(each).logits, atol=1e-5, rtol=0)


def test_a_texts_states_are_let_go_with_it():
    """At once and not when circles are looked for, as they are most of a training's memory."""
    config, network, packer = made({})
    batch = batch_of(windows_of(packer), config)
    text = network.encode_text(batch)
    states = weakref.ref(text.inputs[1][0])
    gc.disable()
    try:
        del text
        assert states() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("share", [False, True])
def test_weights_are_copies_of_the_encoders_or_its_own(share):
    _, network, _ = tiny_model("bert", architecture="dspert.v1", options={"share_weights": share})
    learning = {id(weight) for weight in network.pretrained_weights()}
    spans = [p for name, p in network.named_parameters() if name.startswith("span_transformer.")]
    own = list(network.encoder.encoder.layer.parameters())
    assert learning == {id(p) for p in [*network.encoder.parameters(), *spans]}
    assert len(spans) == (0 if share else len(own))
    for copied, weight in zip(spans, own, strict=not share):
        assert torch.equal(copied, weight)
        assert copied.data_ptr() != weight.data_ptr()


@pytest.mark.parametrize(
    ("options", "gate", "reason"),
    [
        ({"lstm": 401}, None, "even"),
        ({"share_weights": True, "span_layers": 0}, None, "span_layers is 0"),
        ({"lstm": 0, "lstm_dropout": 0.3}, None, "lstm is 0"),
        ({"ffn": 0, "ffn_dropout": 0.3}, None, "ffn is 0"),
        ({"aggregation": "sum"}, None, "one of max, mean, multiplicative, additive"),
        ({}, GATE, "gate"),
        ({"share_weights": True}, GATE, "gate"),
    ],
)
def test_options_that_cannot_be_are_refused(options, gate, reason):
    config = tiny_model("bert")[0]
    with pytest.raises(UnusableError, match=reason):
        check_config(replace(config, architecture="dspert.v1", options=options, gate=gate, **NO_MARKERS))


def test_a_gate_goes_without_an_lstm_and_with_a_shallow_model():
    options = [read_options(DSpERTOptions, each) for each in ({"lstm": 0}, {"span_layers": 0}, {})]
    assert [each.gate_problem is None for each in options] == [True, True, False]


#: Of the encoders that carry markers, those whose layers run again and again, or rotate queries and keys by position.
SHALLOW = {"albert", "esmc", "eurobert", "gte", "jina_embeddings_v3", "nomic_bert"}


@pytest.mark.parametrize("family", some_by_default(WORK, ["albert", "electra", "eurobert", "roberta", "roc_bert"]))
def test_every_other_kind_of_encoder_has_a_span_transformer(family):
    tokenizer = tiny_tokenizer("bert")
    encoder = small(family, tokenizer.get_vocab_size())
    config = replace(made({})[0], position_offset=native_position_offset(encoder), prefix=[2], suffix=[3])
    for options in ({}, {"span_layers": 0}):
        if options or family not in SHALLOW:
            check_states(DSpERT(encoder, replace(config, options=options)), tokenizer, config.prefix, config.suffix)


@pytest.mark.parametrize(
    ("family", "more", "reason"),
    [
        ("albert", {}, "no list of layers"),
        ("nomic_bert", {}, "queries and keys by position"),
        ("bert", {}, "the encoder has 2 layers"),
    ],
)
def test_encoders_without_layers_for_spans_are_refused_but_for_shallow_models(family, more, reason):
    config = replace(made({})[0], position_offset=0)
    encoder = small(family, 200, **more)
    options = {"span_layers": 3} if family == "bert" else {}
    with pytest.raises(UnusableError, match=reason):
        DSpERT(encoder, replace(config, options=options))
    DSpERT(encoder, replace(config, options={"span_layers": 0}))


@pytest.mark.parametrize("options", [{}, {"share_weights": True}, {"span_layers": 0}], ids=str)
def test_a_bundle_is_the_model(options, tmp_path):
    config, network, _ = made(options)
    tokenizer = tiny_model("bert")[2]
    check_states(network, tokenizer, config.prefix, config.suffix)
    save_bundle(tmp_path / "bundle", config, network, tokenizer, card="# tiny\n")
    batch = batch_of(windows_of(packer_of(config, tokenizer)), config)
    with torch.no_grad():
        expected = network(batch).logits
        assert torch.equal(load(tmp_path / "bundle").network.eval()(batch).logits, expected)
        small_integers = load(tmp_path / "bundle", dtype="int8").network.eval()
        near = small_integers(batch).logits
        with torch.autocast("cpu", torch.bfloat16):
            bfloat = network(batch).logits.float()
        save_bundle(tmp_path / "half", config, network, tokenizer, card="# tiny\n", dtype="float16")
        half = load(tmp_path / "half").network.eval()(batch).logits
    for found, limit in ((near, 0.15), (bfloat, 0.05), (half, 0.01)):
        assert 1e-6 < (found - expected).norm() / expected.norm() < limit
    replaced = sum(isinstance(module, Int8Linear) for module in small_integers.modules())
    assert replaced == (24 if not options else 12)  # 6 a layer


def test_work_grows_as_the_paper_says():
    """Of a layer for spans: a row a span, and a token, through its products; attention over up to K keys a span.

    The paper's O(K²Td + KTd²). Multiply-adds of T = 60 words of one token, with and without the layer.
    """
    n_words, hidden, inner = 60, 32, 48
    counts = []
    for longest in (2, 4, 8, 16):
        work = []
        for span_layers in (0, 1):
            config, network, packer = made(
                {"span_layers": span_layers, "lstm": 0}, entity_max_length=longest, max_tokens=70
            )
            batch = batch_of(packer.pack(packer.encode_words([["a"] * n_words]), Context()), config)
            # The plain kernel is made of products that are counted.
            with torch.no_grad(), FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
                network(batch, spans_a_chunk=10_000)
            work.append(counter.get_total_flops() // 2)
        n_spans = len(batch.spans) - n_words
        products = (n_spans + n_words) * (4 * hidden**2 + 2 * hidden * inner)
        # Queries of up to K - 1 spans a first word, over up to K keys, and the weighted sum of values.
        attention = 2 * (n_words - 1) * (longest - 1) * longest * hidden
        assert work[1] - work[0] == products + attention
        counts.append(products + attention)
    # Doubling K doubles the products and fourfolds the attention, which is the lesser part here.
    for smaller, larger in pairwise(counts):
        assert 1.6 < larger / smaller < 4

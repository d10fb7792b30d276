"""The cost model by hand: two layers of width 2, inner width 8, so 48 a token in linear layers, 4 a token seen."""

import pytest

from benchmarks import cost
from benchmarks.cost import Encoder, Window

SMALL = Encoder(layers=2, width=2, inner=8)
WINDOW = Window(tokens=10, spans=5, starts=3, ends=4)
TEXT = 10 * (48 + 10 * 4)  # a layer
PAIRS = 10 * (48 + 12 * 4)  # ten markers, each sees ten tokens, itself and its partner


def test_sizes_come_from_the_encoders_config():
    config = {"num_hidden_layers": 6, "hidden_size": 384, "intermediate_size": 1536}
    assert Encoder.of(config).linear(1) == 12 * 384**2


def test_text_only():
    assert cost.text_only(SMALL, [WINDOW, WINDOW]) == 2 * 2 * TEXT


def test_exact_and_gated():
    assert cost.exact(SMALL, [WINDOW]) == 2 * (TEXT + PAIRS)
    assert cost.exact(SMALL, [WINDOW], kept=0.4) == pytest.approx(2 * (TEXT + 0.4 * PAIRS))
    assert cost.exact(SMALL, [Window(10, 0, 0, 0)]) == 2 * TEXT


def test_late_pairing():
    words = 7 * (48 + 11 * 4)  # three starts and four ends, each sees ten tokens and itself
    assert cost.late_pairing(SMALL, [WINDOW], pair_layers=1) == 2 * TEXT + words + PAIRS
    assert cost.late_pairing(SMALL, [WINDOW], pair_layers=2) == cost.exact(SMALL, [WINDOW])
    gated = cost.late_pairing(SMALL, [WINDOW], pair_layers=1, kept=0.2, kept_words=0.5)
    assert gated == pytest.approx(2 * TEXT + 0.5 * words + 0.2 * PAIRS)


def test_padded_form_repeats_the_text():
    # 120 tokens a sample leave room for 50 spans beside 20 tokens: 100 spans are two samples.
    window = Window(tokens=20, spans=100, starts=15, ends=15)
    assert cost.span_marker(SMALL, [window], max_tokens=40, markers=40) == 2 * 2 * 120 * (48 + 120 * 4)


def test_the_issues_numbers():
    # A sentence of 28 words: about 35 tokens, 190 spans of up to 8 words; 35 + 380 tokens a layer in MiniLM.
    encoder = Encoder(6, 384, 1536)
    window = Window(tokens=35, spans=196, starts=28, ends=28)
    ratio = cost.exact(encoder, [window]) / cost.text_only(encoder, [window])
    assert ratio == pytest.approx(1 + 392 / 35, rel=0.01)

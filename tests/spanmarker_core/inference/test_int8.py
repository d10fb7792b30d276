"""Inference in 8-bit integers."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from spanmarker_core import load
from spanmarker_core.default_model import bundled_model_path
from spanmarker_core.errors import CoreError
from spanmarker_core.inference.int8 import Int8Linear, to_int8

TEST = Path(__file__).parents[3] / "infra" / "models" / "bundled" / "data" / "test.jsonl"


@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_is_near_the_one_it_stands_for(bias):
    torch.manual_seed(0)
    linear = nn.Linear(64, 48, bias=bias)
    with torch.no_grad():
        linear.weight[3] *= 100  # an output of its own scale takes no precision from the others
    inputs = torch.randn(2, 300, 64)
    inputs[0, 7] *= 1000  # nor does a row
    with torch.no_grad():
        expected, found = linear(inputs), Int8Linear(linear)(inputs)
    assert found.shape == expected.shape
    others = [output for output in range(48) if output != 3]
    for part in (others, [3]):
        error = (found - expected)[..., part].norm(dim=-1) / inputs.norm(dim=-1) / linear.weight[part].norm()
        assert 0 < error.max() < 0.01


def test_a_rows_answer_depends_on_nothing_but_the_row():
    torch.manual_seed(0)
    layer, inputs = Int8Linear(nn.Linear(32, 16)), torch.randn(700, 32)
    whole = layer(inputs)
    assert torch.equal(whole, torch.cat([layer(inputs[:1]), layer(inputs[1:600]), layer(inputs[600:])]))


def test_rows_of_zeros_and_no_rows():
    linear = nn.Linear(16, 8)
    layer = Int8Linear(linear)
    assert torch.equal(layer(torch.zeros(3, 16)), linear.bias.detach().expand(3, -1))
    assert layer(torch.zeros(0, 16)).shape == (0, 8)


def test_the_encoders_layers_are_replaced_and_no_others(tiny_bundle):
    network = load(tiny_bundle, dtype="int8").network
    assert not [module for module in network.encoder.modules() if isinstance(module, nn.Linear)]
    assert sum(isinstance(module, Int8Linear) for module in network.encoder.modules()) == 12  # 6 a layer
    assert type(network.classifier) is nn.Linear


def test_other_devices_are_refused(tiny):
    with pytest.raises(CoreError) as caught:
        to_int8(tiny.network.encoder, torch.device("meta"))
    assert caught.value.code == "device.no_int8"
    assert "meta" in str(caught.value)


@pytest.mark.slow
def test_the_bundled_model_finds_the_same_but_for_a_few():
    words = [json.loads(line)["tokens"] for line in TEST.read_text(encoding="utf-8").splitlines()[:20]]
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing deprecated
        for dtype in ("float32", "int8"):
            rows = load(bundled_model_path(), dtype=dtype).tag_words(words)
            found[dtype] = {(i, e.label, e.word_start, e.word_end): e.score for i, row in enumerate(rows) for e in row}
    exact, rounded = found["float32"], found["int8"]
    shared = exact.keys() & rounded.keys()
    assert len(exact) > 20
    assert 2 * len(shared) / (len(exact) + len(rounded)) > 0.95
    moved = np.array([abs(exact[key] - rounded[key]) for key in shared])
    assert 0 < np.median(moved) < 0.03

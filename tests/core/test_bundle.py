import json
import shutil
import socket
from itertools import chain

import pytest
import torch
from safetensors.torch import load_file, save_file

from spanmarker_core import load
from spanmarker_core.bundle import ModelConfig, read_info, seal
from spanmarker_core.errors import CoreError
from spanmarker_core.saving import save_bundle
from tests.tiny import FAMILIES, tiny_bundle, tiny_model

WORDS = [["Barack", "Obama", "flew", "to", "Paris"], ["it", "was", "in", "New", "York"]]


@pytest.fixture
def copy(tiny_bundle, tmp_path):
    return shutil.copytree(tiny_bundle, tmp_path / "copy")


@pytest.mark.parametrize("family", FAMILIES)
def test_round_trip(family, tmp_path):
    model = load(tiny_bundle(tmp_path / "first", family))
    tagged = model.tag_words(WORDS)
    assert any(tagged)
    save_bundle(tmp_path / "second", model.config, model.network, model.packer.tokenizer, "# again\n")
    again = load(tmp_path / "second")
    assert again.config == model.config
    assert again.tag_words(WORDS) == tagged
    # The card is not part of the model's identity; everything else is.
    assert read_info(tmp_path / "first").digest == read_info(tmp_path / "second").digest


def test_half_precision_storage_keeps_the_entities(tmp_path):
    config, network, tokenizer = tiny_model()
    save_bundle(tmp_path / "half", config, network, tokenizer, "", dtype="float16")
    save_bundle(tmp_path / "full", config, network, tokenizer, "")
    half, full = load(tmp_path / "half").tag_words(WORDS), load(tmp_path / "full").tag_words(WORDS)
    for a, b in zip(chain(*half), chain(*full), strict=True):
        assert (a.label, a.word_start, a.word_end) == (b.label, b.word_start, b.word_end)
        assert a.score == pytest.approx(b.score, abs=0.01)


def test_loads_and_tags_with_the_network_off(tiny_bundle, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert any(load(tiny_bundle).tag_words(WORDS))


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "tokenizer.json"])
def test_missing_file(copy, file):
    (copy / file).unlink()
    with pytest.raises(CoreError, match=file) as caught:
        load(copy)
    assert caught.value.code == "bundle.missing_file"


def test_not_a_bundle(tmp_path):
    with pytest.raises(CoreError, match=r"bundle\.not_found"):
        load(tmp_path)


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "tokenizer.json"])
def test_wrong_digest(copy, file):
    content = bytearray((copy / file).read_bytes())
    content[-3] ^= 1
    (copy / file).write_bytes(content)
    with pytest.raises(CoreError, match=file) as caught:
        load(copy)
    assert caught.value.code == "bundle.digest_mismatch"


def test_nan_weight(copy):
    weights = load_file(copy / "model.safetensors")
    weights["classifier.weight"][0, 0] = torch.nan
    save_file(weights, copy / "model.safetensors")
    seal(copy)
    with pytest.raises(CoreError, match=r"classifier\.weight holds 1 values"):
        load(copy)


def test_weights_of_another_model(copy):
    weights = load_file(copy / "model.safetensors")
    del weights["classifier.bias"]
    save_file(weights, copy / "model.safetensors")
    seal(copy)
    with pytest.raises(CoreError, match=r"classifier\.bias") as caught:
        load(copy)
    assert caught.value.code == "bundle.weights_mismatch"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"labels": ["location", "person", "work", "event"]}, "checkpoint.no_outside_label"),
        ({"format_version": 99}, "bundle.format_too_new"),
        ({"format_version": None}, "bundle.bad_config"),
        ({"surprise": 1}, "bundle.bad_config"),
        ({"splitter": "magic.v9"}, "bundle.bad_config"),
        ({"architecture": "magic.v9"}, "bundle.bad_config"),
        ({"decoder": "magic.v9"}, "bundle.bad_config"),
        ({"context": {"policy": "corpus"}}, "bundle.bad_config"),
        ({"entity_max_length": 0}, "bundle.bad_config"),
        ({"max_tokens": "many"}, "bundle.bad_config"),
    ],
)
def test_bad_config(copy, change, code):
    config = json.loads((copy / "config.json").read_text(encoding="utf-8"))
    (copy / "config.json").write_text(json.dumps({**config, **change}), encoding="utf-8")
    seal(copy)
    with pytest.raises(CoreError) as caught:
        load(copy)
    assert caught.value.code == code


def test_config_round_trip():
    config = tiny_model()[0]
    assert ModelConfig.from_json(config.to_json(), "x") == config


def test_refuses_to_write_over_something(tiny_bundle):
    config, network, tokenizer = tiny_model()
    with pytest.raises(CoreError, match=r"bundle\.output_exists"):
        save_bundle(tiny_bundle, config, network, tokenizer, "")


def test_absent_device(tiny_bundle):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(CoreError, match=r"device\.not_available"):
        load(tiny_bundle, device="cuda")


def test_unknown_dtype(tiny_bundle):
    with pytest.raises(CoreError, match="float32"):
        load(tiny_bundle, dtype="float8")

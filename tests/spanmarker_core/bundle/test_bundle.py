import json
import re
import shutil
import socket
from dataclasses import replace
from itertools import chain

import pytest
import torch
from tokenizers import Tokenizer, models
from transformers import AutoConfig

from spanmarker_core import load
from spanmarker_core.bundle.files import POINTER_PROBLEM
from spanmarker_core.bundle.reader import read_info, write_digests
from spanmarker_core.bundle.writer import encoder_facts, save_bundle
from spanmarker_core.errors import CoreError
from spanmarker_core.inference.loading import build_network, choose_device
from spanmarker_core.models.attention import ATTENTION
from tests.support.damage import edit, weights_are
from tests.support.tiny import FAMILIES, tiny_bundle, tiny_model

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


def test_half_precision_storage_keeps_the_entities(tiny, tmp_path):
    save_bundle(tmp_path / "half", tiny.config, tiny.network, tiny.packer.tokenizer, "", dtype="float16")
    for a, b in zip(*(chain(*model.tag_words(WORDS)) for model in (load(tmp_path / "half"), tiny)), strict=True):
        assert (a.label, a.word_start, a.word_end) == (b.label, b.word_start, b.word_end)
        assert a.score == pytest.approx(b.score, abs=0.01)


def test_loads_and_tags_with_the_network_off(tiny_bundle, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert any(load(tiny_bundle).tag_words(WORDS))


def rewrite_config(bundle, **changes):
    edit(bundle / "config.json", **changes)
    write_digests(bundle)


def refused(bundle) -> CoreError:
    with pytest.raises(CoreError) as caught:
        load(bundle)
    assert str(bundle) in str(caught.value) or caught.value.code in (
        "checkpoint.no_outside_label",
        "encoder.entity_too_long",
        "encoder.no_position_ids",
    )
    return caught.value


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "tokenizer.json"])
def test_files_that_are_missing_or_changed(copy, file):
    content = bytearray((copy / file).read_bytes())
    content[-3] ^= 1
    (copy / file).write_bytes(content)
    changed = refused(copy)
    (copy / file).unlink()
    missing = refused(copy)
    assert (changed.code, missing.code) == ("bundle.digest_mismatch", "bundle.missing_file")
    assert all(file in str(error) for error in (changed, missing))
    shutil.rmtree(copy)
    copy.mkdir()
    assert refused(copy).code == "bundle.not_found"


def test_weights_that_are_no_numbers_or_of_another_model(copy):
    weights_are(lambda weights: weights["classifier.weight"][0, 0].fill_(torch.nan))(copy)
    write_digests(copy)
    error = refused(copy)
    assert (error.code, error.values["name"], error.values["count"]) == ("bundle.nan_weight", "classifier.weight", 1)
    weights_are(lambda weights: weights.pop("classifier.bias"))(copy)
    write_digests(copy)
    error = refused(copy)
    assert error.code == "bundle.weights_mismatch"
    assert "classifier.bias" in str(error)


# The tiny bundle: ids 0 to VOCABULARY - 1, 80 positions, windows of 48 tokens, [CLS] and [SEP] around them.
VOCABULARY = 235

GATE = {"trained": "joint", "width": 8, "threshold": 0.5, "curve": []}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format_version": None}, "format_version is None"),
        ({"format_version": True}, "format_version is True"),
        ({"format_version": 0}, "format_version is 0"),
        ({"surprise": 1}, "unknown keys: surprise"),
        ({"splitter": "magic.v9"}, r"splitter 'magic\.v9' is not one of words\.v1"),
        ({"architecture": "magic.v9"}, r"architecture 'magic\.v9' is not one of span_marker\.v1"),
        ({"architecture": ["x"]}, "architecture"),
        ({"decoder": "magic.v9"}, r"decoder 'magic\.v9' is not one of flat\.v1"),
        ({"context": {"policy": "corpus"}}, "corpus"),
        ({"context": None}, "context is None"),
        ({"context": {"policy": "document", "max_prev": -1}}, "max_prev_context -1"),
        ({"context": {"policy": "document", "max_next": "x"}}, "max_next_context 'x'"),
        ({"context": {"surprise": 1}}, "surprise"),
        ({"entity_max_length": 0}, "entity_max_length is 0, not an integer of 1 or more"),
        ({"entity_max_length": True}, "entity_max_length is True"),
        ({"max_tokens": "many"}, "max_tokens is 'many'"),
        ({"max_tokens": 2}, "max_tokens is 2, not an integer of 16 or more"),
        ({"max_tokens": 81}, "max_tokens is 81, but the encoder has 80 positions"),
        ({"max_tokens": 100_000}, "the encoder has 80 positions"),
        ({"position_offset": 33}, "max_tokens is 48, but the encoder has 47 positions"),
        ({"position_offset": -1}, "position_offset is -1"),
        ({"labels": None}, "labels is None"),
        ({"labels": ["O"]}, "labels is"),
        ({"labels": ["O", "person", "person", "work"]}, "labels contains person more than once"),
        ({"labels": ["O", "person", "work", 3]}, "label 3: it is int"),
        ({"labels": ["O", "person", "work", "\ud800"]}, "surrogate"),
        ({"prefix": "x"}, "prefix is 'x'"),
        ({"prefix": [VOCABULARY]}, f"an id of prefix is {VOCABULARY}, not an integer from 0 to {VOCABULARY - 1}"),
        ({"suffix": [None]}, "an id of suffix is None"),
        ({"unknown_id": None}, "unknown_id is None"),
        ({"unknown_id": VOCABULARY}, f"unknown_id is {VOCABULARY}"),
        ({"start_marker_id": VOCABULARY}, f"start_marker_id is {VOCABULARY}"),
        ({"end_marker_id": VOCABULARY - 2}, "are both"),
        ({"threshold": 2}, "threshold 2"),
        ({"threshold": {"nothing": 0.5}}, "nothing"),
        ({"facts": []}, r"facts is \[\]"),
        ({"pair_layers": 3}, "pair_layers is 3, not an integer from 0 to 2"),
        ({"pair_layers": -1}, "pair_layers is -1"),
        ({"pair_layers": "1"}, "pair_layers is '1'"),
        ({"gate": {}}, r"gate is \{\}, not an object with trained, width, threshold and curve"),
        ({"gate": {**GATE, "trained": "somehow"}}, r"gate\.trained 'somehow'"),
        ({"gate": {**GATE, "width": 0}}, r"gate\.width is 0"),
        ({"gate": {**GATE, "threshold": 1.5}}, r"gate\.threshold is 1\.5"),
        ({"gate": {**GATE, "threshold": True}}, r"gate\.threshold is True"),
        ({"gate": {**GATE, "curve": [{"threshold": 0.5}]}}, r"gate\.curve is"),
        ({"gate": {**GATE, "curve": [{"threshold": 0.5, "kept": float("nan")}]}}, r"gate\.curve is"),
        ({"gate": {**GATE, "curve": [{"threshold": 0.5, "kept": -3}]}}, r"gate\.curve is"),
        ({"format_version": 1}, "format_version is 1, but gate, options, pair_layers belongs to a later version"),
        ({"encoder": []}, r"encoder is \[\]"),
        ({"encoder": {"hidden_size": 32}}, "model_type"),
    ],
)
def test_bad_config(copy, change, says):
    rewrite_config(copy, **change)
    error = refused(copy)
    assert error.code == "bundle.bad_config"
    assert re.search(says, str(error))
    # Found without building anything, so a scheduler finds it too.
    with pytest.raises(CoreError, match=r"bundle\.bad_config"):
        read_info(copy)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"model_type": "nonsense"}, "'nonsense'"),
        ({"num_attention_heads": 5}, "multiple of the number of attention"),
        ({"num_attention_heads": 0}, "encoder"),
        ({"hidden_act": "nonsense"}, "nonsense"),
        ({"type_vocab_size": 0}, "encoder cannot run"),
        ({"max_position_embeddings": None}, "encoder.max_position_embeddings is None"),
        ({"vocab_size": "x"}, "encoder.vocab_size is 'x'"),
    ],
)
def test_encoder_that_cannot_be_built_or_run(copy, change, says):
    rewrite_config(copy, encoder={**read_info(copy).config.encoder, **change})
    error = refused(copy)
    assert error.code == "bundle.bad_config"
    assert says in str(error)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"labels": ["location", "person", "work", "event"]}, "checkpoint.no_outside_label"),
        ({"format_version": 99}, "bundle.format_too_new"),
        ({"entity_max_length": 24}, "encoder.entity_too_long"),  # 46 tokens of text: two spans of 23 words
    ],
)
def test_config_with_a_code_of_its_own(copy, change, code):
    rewrite_config(copy, **change)
    assert refused(copy).code == code


def test_a_bundle_of_version_1_is_one_without_gate_and_late_pairing(copy):
    values = json.loads((copy / "config.json").read_text())
    del values["gate"], values["pair_layers"], values["options"]
    values["format_version"] = 1
    (copy / "config.json").write_text(json.dumps(values))
    write_digests(copy)
    config = load(copy).config
    assert (config.format_version, config.gate, config.pair_layers) == (3, None, None)


def test_the_right_config_passes_at_the_limits(copy):
    """And results as tuples make no difference."""
    expected = load(copy).tag_words(WORDS)
    rewrite_config(copy, encoder={**read_info(copy).config.encoder, "return_dict": False})
    assert load(copy).tag_words(WORDS) == expected
    rewrite_config(copy, max_tokens=80, entity_max_length=39, unknown_id=VOCABULARY - 1)
    assert load(copy).config.max_tokens == 80


@pytest.mark.parametrize(
    "change",
    [
        {"_attn_implementation": "evil/kernel"},
        {"attn_implementation": "evil/kernel"},
        {"experts_implementation": "evil/kernel"},
        {"quantization_config": {"quant_method": "bitsandbytes"}},
        {"auto_map": {"AutoModel": "evil/repo--model.Evil"}},
        {"dtype": "float16"},
        {"_name_or_path": "evil/repo"},
        {"text_config": {"_attn_implementation": "evil/kernel"}},
        {"parts": [{"attn_implementation": "evil/kernel"}]},
    ],
)
def test_a_config_chooses_no_code(copy, change, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("an encoder was built")

    monkeypatch.setattr("spanmarker_core.inference.loading.build_network", refuse)
    rewrite_config(copy, encoder={**read_info(copy).config.encoder, **change})
    error = refused(copy)
    assert error.code == "bundle.bad_config"
    assert "must not select code" in str(error)


def test_built_with_plain_attention_whatever_a_config_says():
    """Behind the refusal: what reaches transformers is set, not taken from the config."""
    config = tiny_model()[0]
    evil = {**config.encoder, "_attn_implementation": "evil/kernel", "experts_implementation": "evil/kernel"}
    network = build_network(replace(config, encoder=evil))
    assert network.encoder.config._attn_implementation == ATTENTION
    assert network.encoder.config._experts_implementation == "eager"
    evil_config = AutoConfig.for_model("bert", attn_implementation="evil/kernel", hidden_size=32)
    assert not [key for key in encoder_facts(evil_config) if "implementation" in key or key.startswith("_")]


@pytest.mark.parametrize(
    ("file", "content", "code", "says"),
    [
        ("config.json", b"\xff\xfe\xfa", "bundle.bad_file", "it is not UTF-8"),
        ("config.json", b"{", "bundle.bad_config", "it is not JSON"),
        ("config.json", b"[" * 100_000, "bundle.bad_config", "it is not JSON"),
        ("config.json", b"[]", "bundle.bad_config", "it is not a JSON object"),
        ("config.json", b'{"format_version": 1}', "bundle.bad_config", "it lacks encoder, end_marker_id"),
        ("tokenizer.json", b"{}", "bundle.bad_file", "it is not a tokenizer"),
        ("tokenizer.json", b"\xff", "bundle.bad_file", "it is not a tokenizer"),
        ("model.safetensors", b"torn", "bundle.bad_file", "does not contain weights"),
        ("model.safetensors", b"", "bundle.bad_file", "does not contain weights"),
        *(("digests.json", content, "bundle.bad_file", "") for content in (b"[]", b"{", b"\xff")),
    ],
)
def test_sealed_files_that_are_no_such_files(copy, file, content, code, says):
    (copy / file).write_bytes(content)
    if file != "digests.json":
        write_digests(copy)
    error = refused(copy)
    assert (error.code, says in error.values["problem"]) == (code, True)
    assert error.values.get("file", "config.json") == file


def test_tokenizer_of_another_model(copy):
    for tokens, says in (
        (3, f"ids up to {VOCABULARY}, but the encoder has embeddings for ids up to {VOCABULARY - 1}"),
        (0, "no tokens"),
    ):
        tokenizer = Tokenizer.from_file(str(copy / "tokenizer.json"))
        tokenizer.add_tokens([f"extra{number}" for number in range(tokens)])
        tokenizer = tokenizer if tokens else Tokenizer(models.WordPiece({}, unk_token="[UNK]"))
        tokenizer.save(str(copy / "tokenizer.json"))
        write_digests(copy)
        error = refused(copy)
        assert error.code == "bundle.bad_file"
        assert says in str(error)


def test_absent_device(tiny_bundle):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(CoreError, match=r"device\.(cpu_build|no_gpu)"):
        load(tiny_bundle, device="cuda")


@pytest.mark.parametrize(
    ("built", "count", "device", "code"),
    [
        (False, 0, "cuda", "device.cpu_build"),
        (True, 0, "cuda", "device.no_gpu"),
        (True, 1, "cuda:1", "device.no_gpu"),
    ],
)
def test_a_missing_gpu_and_a_build_without_gpus_are_told_apart(monkeypatch, built, count, device, code):
    monkeypatch.setattr(torch.version, "cuda", "12.8" if built else None)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    with pytest.raises(CoreError) as caught:
        choose_device(device)
    assert (caught.value.code, caught.value.values["device"]) == (code, device)


@pytest.mark.parametrize("device", ["gpu", "GPU", "CPU", "tpu", "auto ", "", "cuda:x", "cpu,cuda"])
def test_unknown_device(tiny_bundle, device):
    with pytest.raises(CoreError) as caught:
        load(tiny_bundle, device=device)
    assert (caught.value.code, caught.value.values) == ("device.unknown", {"device": device})


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_pointer_of_git_lfs_is_named(tiny_bundle, tmp_path, name):
    path = shutil.copytree(tiny_bundle, tmp_path / "bundle")
    (path / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")
    with pytest.raises(CoreError) as caught:
        load(path)
    assert (caught.value.code, caught.value.values["file"]) == ("bundle.bad_file", name)
    assert caught.value.values["problem"] == POINTER_PROBLEM


def test_unknown_dtype(tiny_bundle):
    with pytest.raises(CoreError) as caught:
        load(tiny_bundle, dtype="float8")
    assert (caught.value.code, caught.value.values["value"]) == ("call.unknown_option", "float8")
    assert "float32" in caught.value.values["choices"]

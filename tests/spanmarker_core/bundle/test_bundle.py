import json
import re
import shutil
import socket
from dataclasses import replace
from itertools import chain

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models
from transformers import AutoConfig

from spanmarker_core import load
from spanmarker_core.bundle.reader import read_config, read_info, write_digests
from spanmarker_core.bundle.writer import check_output, encoder_facts, save_bundle
from spanmarker_core.errors import CoreError
from spanmarker_core.inference.loading import build_network
from spanmarker_core.models.attention import ATTENTION
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
    write_digests(copy)
    with pytest.raises(CoreError) as caught:
        load(copy)
    assert caught.value.code == "bundle.nan_weight"
    assert (caught.value.values["name"], caught.value.values["count"]) == ("classifier.weight", 1)


def test_weights_of_another_model(copy):
    weights = load_file(copy / "model.safetensors")
    del weights["classifier.bias"]
    save_file(weights, copy / "model.safetensors")
    write_digests(copy)
    with pytest.raises(CoreError, match=r"classifier\.bias") as caught:
        load(copy)
    assert caught.value.code == "bundle.weights_mismatch"


def rewrite_config(bundle, **changes):
    config = json.loads((bundle / "config.json").read_text(encoding="utf-8"))
    (bundle / "config.json").write_text(json.dumps({**config, **changes}), encoding="utf-8")
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


# The tiny bundle: ids 0 to VOCABULARY - 1, 80 positions, windows of 48 tokens, [CLS] and [SEP] around them.
VOCABULARY = 235

GATE = {"trained": "joint", "width": 8, "threshold": 0.5, "curve": []}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format_version": None}, "format_version is None"),
        ({"format_version": True}, "format_version is True"),
        ({"format_version": 0}, "format_version is 0"),
        ({"surprise": 1}, "unknown keys surprise"),
        ({"splitter": "magic.v9"}, r"splitter 'magic\.v9' is not one of words\.v1"),
        ({"architecture": "magic.v9"}, r"architecture 'magic\.v9' is not one of span_marker\.v1"),
        ({"architecture": ["x"]}, "architecture"),
        ({"decoder": "magic.v9"}, r"decoder 'magic\.v9' is not one of flat\.v1"),
        ({"context": {"policy": "corpus"}}, "corpus"),
        ({"context": None}, "context is None"),
        ({"context": {"policy": "document", "max_prev": -1}}, "max_prev_context -1"),
        ({"context": {"policy": "document", "max_next": "x"}}, "max_next_context 'x'"),
        ({"context": {"surprise": 1}}, "surprise"),
        ({"entity_max_length": 0}, "entity_max_length is 0, not a whole number of 1 or more"),
        ({"entity_max_length": True}, "entity_max_length is True"),
        ({"max_tokens": "many"}, "max_tokens is 'many'"),
        ({"max_tokens": 2}, "max_tokens is 2, not a whole number of 16 or more"),
        ({"max_tokens": 81}, "max_tokens is 81, and the encoder has 80 positions"),
        ({"max_tokens": 100_000}, "the encoder has 80 positions"),
        ({"position_offset": 33}, "max_tokens is 48, and the encoder has 47 positions"),
        ({"position_offset": -1}, "position_offset is -1"),
        ({"labels": None}, "labels is None"),
        ({"labels": ["O"]}, "labels is"),
        ({"labels": ["O", "person", "person", "work"]}, "labels holds person more than once"),
        ({"labels": ["O", "person", "work", 3]}, "label 3: it is int"),
        ({"labels": ["O", "person", "work", "\ud800"]}, "surrogate"),
        ({"prefix": "x"}, "prefix is 'x'"),
        ({"prefix": [VOCABULARY]}, f"an id of prefix is {VOCABULARY}, not a whole number from 0 to {VOCABULARY - 1}"),
        ({"suffix": [None]}, "an id of suffix is None"),
        ({"unknown_id": None}, "unknown_id is None"),
        ({"unknown_id": VOCABULARY}, f"unknown_id is {VOCABULARY}"),
        ({"start_marker_id": VOCABULARY}, f"start_marker_id is {VOCABULARY}"),
        ({"end_marker_id": VOCABULARY - 2}, "are both"),
        ({"threshold": 2}, "threshold 2"),
        ({"threshold": {"nothing": 0.5}}, "nothing"),
        ({"facts": []}, r"facts is \[\]"),
        ({"pair_layers": 3}, "pair_layers is 3, not a whole number from 0 to 2"),
        ({"pair_layers": -1}, "pair_layers is -1"),
        ({"pair_layers": "1"}, "pair_layers is '1'"),
        ({"gate": {}}, r"gate is \{\}, not an object of trained, width, threshold and curve"),
        ({"gate": {**GATE, "trained": "somehow"}}, r"gate\.trained 'somehow'"),
        ({"gate": {**GATE, "width": 0}}, r"gate\.width is 0"),
        ({"gate": {**GATE, "threshold": 1.5}}, r"gate\.threshold is 1\.5"),
        ({"gate": {**GATE, "threshold": True}}, r"gate\.threshold is True"),
        ({"gate": {**GATE, "curve": [{"threshold": 0.5}]}}, r"gate\.curve is"),
        ({"gate": {**GATE, "curve": [{"threshold": 0.5, "kept": float("nan")}]}}, r"gate\.curve is"),
        ({"gate": {**GATE, "curve": [{"threshold": 0.5, "kept": -3}]}}, r"gate\.curve is"),
        ({"format_version": 1}, "format_version is 1, and it holds gate, options, pair_layers of a later one"),
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


def test_a_bundle_of_version_1_is_one_without_gate_and_late_pairing(copy):
    values = json.loads((copy / "config.json").read_text())
    del values["gate"], values["pair_layers"], values["options"]
    values["format_version"] = 1
    (copy / "config.json").write_text(json.dumps(values))
    write_digests(copy)
    config = load(copy).config
    assert (config.format_version, config.gate, config.pair_layers) == (3, None, None)


def test_the_right_config_passes_at_the_limits(copy):
    rewrite_config(copy, max_tokens=80, entity_max_length=39, unknown_id=VOCABULARY - 1)
    assert load(copy).config.max_tokens == 80


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


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"model_type": "nonsense"}, "'nonsense'"),
        ({"num_attention_heads": 5}, "multiple of the number of attention"),
        ({"num_attention_heads": 0}, "encoder"),
        ({"hidden_act": "nonsense"}, "nonsense"),
        ({"type_vocab_size": 0}, "encoder can't run"),
        ({"max_position_embeddings": None}, "encoder.max_position_embeddings is None"),
        ({"vocab_size": "x"}, "encoder.vocab_size is 'x'"),
    ],
)
def test_encoder_that_cannot_be_built_or_run(copy, change, says):
    encoder = read_info(copy).config.encoder
    rewrite_config(copy, encoder={**encoder, **change})
    error = refused(copy)
    assert error.code == "bundle.bad_config"
    assert says in str(error)


def test_results_as_tuples_make_no_difference(copy):
    expected = load(copy).tag_words(WORDS)
    rewrite_config(copy, encoder={**read_info(copy).config.encoder, "return_dict": False})
    assert load(copy).tag_words(WORDS) == expected


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
    assert "chooses no code" in str(error)


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
        ("model.safetensors", b"torn", "bundle.bad_file", "can't be read as weights"),
        ("model.safetensors", b"", "bundle.bad_file", "can't be read as weights"),
    ],
)
def test_sealed_files_that_are_no_such_files(copy, file, content, code, says):
    (copy / file).write_bytes(content)
    write_digests(copy)
    error = refused(copy)
    assert (error.code, says in error.values["problem"]) == (code, True)
    assert error.values.get("file", "config.json") == file


@pytest.mark.parametrize("content", [b"[]", b"{", b"\xff"])
def test_bad_digests(copy, content):
    (copy / "digests.json").write_bytes(content)
    error = refused(copy)
    assert error.code == "bundle.bad_file"
    assert "digests.json" in str(error)


def test_tokenizer_of_another_model(copy):
    tokenizer = Tokenizer.from_file(str(copy / "tokenizer.json"))
    tokenizer.add_tokens([f"extra{number}" for number in range(3)])
    tokenizer.save(str(copy / "tokenizer.json"))
    write_digests(copy)
    error = refused(copy)
    assert error.code == "bundle.bad_file"
    assert f"ids up to {VOCABULARY}, and the encoder has embeddings for ids up to {VOCABULARY - 1}" in str(error)
    Tokenizer(models.WordPiece({}, unk_token="[UNK]")).save(str(copy / "tokenizer.json"))
    write_digests(copy)
    assert "no tokens" in str(refused(copy))


def test_config_round_trip():
    config = tiny_model()[0]
    assert read_config(config.to_json(), "x") == config


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
    with pytest.raises(CoreError) as caught:
        load(tiny_bundle, dtype="float8")
    assert (caught.value.code, caught.value.values["value"]) == ("call.unknown_option", "float8")
    assert "float32" in caught.value.values["choices"]


@pytest.mark.parametrize("path", ["/proc/nope/bundle", "/etc/passwd/bundle", "x" * 300, "a\0b"])
def test_output_that_cannot_be_written(path):
    with pytest.raises(CoreError) as caught:
        check_output(path)
    assert caught.value.code == "bundle.output_not_writable"


def test_checking_an_output_leaves_nothing(tmp_path):
    check_output(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "empty").mkdir()
    check_output(tmp_path / "empty")
    assert list((tmp_path / "empty").iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(CoreError, match=r"bundle\.output_exists"):
        check_output(tmp_path / "file")
    with pytest.raises(CoreError, match=r"bundle\.output_not_writable"):
        check_output(tmp_path / "file" / "bundle")


def test_a_disk_that_fills_leaves_no_half_bundle(tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("spanmarker_core.bundle.writer.write_digests", full)
    config, network, tokenizer = tiny_model()
    with pytest.raises(CoreError, match="No space left") as caught:
        save_bundle(tmp_path / "bundle", config, network, tokenizer, "")
    assert caught.value.code == "bundle.output_not_writable"
    check_output(tmp_path / "bundle")


@pytest.mark.parametrize(("value", "dtype"), [(torch.nan, "float32"), (1e6, "float16")])
def test_weights_that_could_not_be_loaded_are_not_written(tmp_path, value, dtype):
    config, network, tokenizer = tiny_model()
    with torch.no_grad():
        network.classifier.weight[0, 0] = value
    with pytest.raises(CoreError, match=r"bundle\.nan_weight"):
        save_bundle(tmp_path / "bundle", config, network, tokenizer, "", dtype=dtype)
    assert not (tmp_path / "bundle").exists()

"""Importing checkpoints of the span_marker library: what is accepted, what is refused and why."""

import json
import shutil
import socket
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from spanmarker_core import load
from spanmarker_core.errors import CoreError
from spanmarker_core.integrations.span_marker import import_span_marker
from spanmarker_core.windows.packer import Context
from tests.support.damage import (
    bin_holds,
    config_says,
    edit,
    edit_encoder,
    encoder_says,
    index_is,
    weights_are,
    without,
    write,
)

GOLDEN = Path(__file__).parents[2] / "parity" / "golden"


@pytest.fixture
def copy(tmp_path):
    return shutil.copytree(GOLDEN / "electra", tmp_path / "checkpoint")


def refused(source, tmp_path) -> CoreError:
    with pytest.raises(CoreError) as caught:
        import_span_marker(source, tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()
    return caught.value


def test_what_a_bundle_keeps(copy, tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    import_span_marker(copy, tmp_path / "bundle")
    shutil.rmtree(copy)
    model = load(tmp_path / "bundle")
    assert model.config.context == Context("document", 2, 1)
    assert model.config.splitter == "tokenizer.v1"
    assert (model.config.position_offset, model.config.max_tokens, model.config.entity_max_length) == (2, 128, 5)
    assert "tiny-electra" not in (tmp_path / "bundle" / "config.json").read_text(encoding="utf-8")


def in_several_files(copy):
    weights = load_file(copy / "model.safetensors")
    (copy / "model.safetensors").unlink()
    names = sorted(weights)
    parts = {"model-1.safetensors": names[::2], "model-2.safetensors": names[1::2]}
    for file, members in parts.items():
        save_file({name: weights[name] for name in members}, copy / file)
    where = {name: file for file, members in parts.items() for name in members}
    index_is({"weight_map": where})(copy)


@pytest.mark.parametrize("stored", [bin_holds(), in_several_files])
def test_however_weights_are_stored_it_is_one_model(copy, tmp_path, stored):
    import_span_marker(copy, tmp_path / "first")
    stored(copy)
    import_span_marker(copy, tmp_path / "second")
    assert (tmp_path / "first" / "digests.json").read_text() == (tmp_path / "second" / "digests.json").read_text()


def test_a_pickle_that_would_run_code_is_refused(copy, tmp_path):
    class Attack:
        def __reduce__(self):
            return Path.touch, (tmp_path / "attacked",)

    bin_holds({"classifier.weight": Attack()})(copy)
    assert refused(copy, tmp_path).code == "checkpoint.not_span_marker"
    assert not (tmp_path / "attacked").exists()


def tokenizer_says(**changes):
    return lambda folder: edit(folder / "tokenizer_config.json", **changes)


def more_tokens(folder):
    """A tokenizer that has grown beyond the embeddings of the encoder."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_tokens([f"extra{number}" for number in range(10)])
    tokenizer.save(str(folder / "tokenizer.json"))


def fewer_tokens(folder):
    """A tokenizer of another, smaller vocabulary."""
    values = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    vocabulary = values["model"]["vocab"]
    values["model"]["vocab"] = {token: id_ for token, id_ in vocabulary.items() if id_ < 300}
    (folder / "tokenizer.json").write_text(json.dumps(values), encoding="utf-8")


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (config_says(model_type="bert"), "model_type 'bert'"),
        (write("config.json", "{"), "cannot read config.json"),
        (write("config.json", "[]"), "config.json is not a JSON object"),
        (without("config.json"), "cannot read config.json"),
        (without("model.safetensors"), "neither model.safetensors"),
        (write("model.safetensors", "torn"), "model.safetensors does not contain weights"),
        (without("tokenizer_config.json"), "cannot read tokenizer_config.json"),
        (without("tokenizer.json", "vocab.txt"), "it has no tokenizer.json and no vocab.txt"),
        (write("tokenizer.json", "{}"), "cannot read tokenizer.json"),
        (more_tokens, "ids up to"),
        (fewer_tokens, "but its encoder has"),
        (tokenizer_says(unk_token=["x"]), "no unknown token"),
        (index_is({}), "no weight_map"),
        (index_is({"weight_map": ["model.safetensors"]}), "no weight_map"),
        (index_is({"weight_map": {"a": 1}}), "no weight_map"),
        (index_is({"weight_map": {"a": "../outside.safetensors"}}), "'../outside.safetensors', which is not in"),
        (index_is({"weight_map": {"a": "/outside.safetensors"}}), "which is not in this folder"),
        (bin_holds([1, 2]), "pytorch_model.bin does not contain weights"),
        (bin_holds(3), "pytorch_model.bin does not contain weights"),
        (bin_holds({"classifier.weight": 3}), "pytorch_model.bin does not contain weights"),
        (bin_holds({"classifier.weight": torch.tensor(3)}), "no classifier"),
        (weights_are(lambda w: w.pop("classifier.weight")), "no classifier"),
        (weights_are(lambda w: w.pop("classifier.bias")), "lacks weights classifier.bias"),
        (weights_are(lambda w: w["classifier.bias"].fill_(torch.nan)), "classifier.bias contains 4 values"),
        (weights_are(lambda w: w.update({"classifier.bias": torch.zeros(9)})), "shapes of these weights"),
        (config_says(id2label={"a": "O", "1": "LOC", "2": "ORG", "3": "PER"}), "has no labels for the 4 outputs"),
        (config_says(id2label=["O", "LOC", "ORG", "PER"]), "has no labels"),
        (encoder_says(id2label={"a": "O"}), "'a'"),
        (encoder_says(id2label=["O", "LOC", "ORG", "PER"]), "cannot use the encoder's config (model_type 'electra')"),
        (config_says(id2label={"0": "O", "1": "LOC", "2": "ORG", "3": 3}), "label 3"),
        (config_says(id2label={"0": "O", "1": "LOC", "2": "LOC", "3": "PER"}), "LOC more than once"),
        (config_says(entity_max_length=None), "entity_max_length is None"),
        (config_says(entity_max_length=0), "entity_max_length is 0"),
        (config_says(model_max_length="512"), "model_max_length is '512'"),
        (config_says(model_max_length=3), "max_tokens is 3, not an integer of 16 or more"),
        (tokenizer_says(model_max_length="512"), "model_max_length is '512'"),
        (config_says(max_prev_context="x"), "max_prev_context 'x'"),
        (config_says(max_next_context=-1), "max_next_context -1"),
        (encoder_says(model_type="nonsense"), "'nonsense'"),
        (encoder_says(model_type="xlnet"), "xlnet"),
        (encoder_says(model_type="t5"), "t5"),
        (encoder_says(model_type=None), "model_type None"),
        (encoder_says(num_attention_heads=5), "encoder cannot run on packed texts"),
    ],
)
def test_refused_with_the_reason(copy, tmp_path, damage, says):
    save_file({"classifier.weight": torch.zeros(1)}, tmp_path / "outside.safetensors")
    damage(copy)
    error = refused(copy, tmp_path)
    assert error.code == "checkpoint.not_span_marker"
    assert says in str(error)


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (config_says(id2label={"0": "X", "1": "LOC", "2": "ORG", "3": "PER"}), "checkpoint.no_outside_label"),
        (encoder_says(model_type="deberta-v2"), "encoder.no_position_ids"),
        (encoder_says(is_decoder=True), "encoder.no_position_ids"),
        (config_says(entity_max_length=10_000), "encoder.entity_too_long"),
        (config_says(entity_max_length=64), "encoder.entity_too_long"),  # 126 tokens of text: 63 words
    ],
)
def test_refused_with_a_code_of_its_own(copy, tmp_path, damage, code):
    damage(copy)
    assert refused(copy, tmp_path).code == code


def test_vocabulary_files_do_without_tokenizer_json(copy, tmp_path):
    import_span_marker(copy, tmp_path / "first")
    (copy / "tokenizer.json").unlink()
    import_span_marker(copy, tmp_path / "second")
    words = [["Ada", "Lovelace", "met", "Paris"]]
    first, second = (load(tmp_path / name).packer.encode_words(words)[0] for name in ("first", "second"))
    assert first.token_ids.tolist() == second.token_ids.tolist()


def test_what_could_choose_code_is_left_behind(copy, tmp_path):
    edit_encoder(copy, _attn_implementation="evil/kernel", experts_implementation="evil/kernel", dtype="float16")
    import_span_marker(copy, tmp_path / "bundle")
    text = (tmp_path / "bundle" / "config.json").read_text(encoding="utf-8")
    assert "evil" not in text
    assert "dtype" not in text
    load(tmp_path / "bundle")


def test_output_that_cannot_be_written(copy):
    with pytest.raises(CoreError, match=r"bundle\.output_not_writable"):
        import_span_marker(copy, "/proc/nope/bundle")

"""New models around pretrained encoders: what is accepted, what is refused and why."""

import shutil

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import AutoModel
from transformers.utils import logging

from spanmarker_core.bundle.pretrained import put_spaces_before_words
from spanmarker_core.errors import CoreError
from spanmarker_core.text.tag_schemes import label_problem
from spanmarker_core.training import TrainingSettings
from spanmarker_core.training.initialise import new_model
from spanmarker_core.windows.packer import Context
from tests.support.damage import bin_holds, config_says, index_is, weights_are, without, write
from tests.support.tiny import tiny_encoder, tiny_tokenizer
from tests.support.training import write_encoder

LIMITS = {"entity_max_length": 4, "max_tokens": 48}
SETTINGS = TrainingSettings(**LIMITS)
LABELS = ["location", "person"]


@pytest.fixture
def copy(encoder, tmp_path):
    return shutil.copytree(encoder, tmp_path / "encoder")


def refused(encoder, settings=SETTINGS, labels=LABELS) -> CoreError:
    with pytest.raises(CoreError) as caught:
        new_model(encoder, labels, settings)
    return caught.value


def test_the_weights_are_the_encoders(encoder):
    config, network, _ = new_model(encoder, LABELS, SETTINGS)
    stored = load_file(encoder / "model.safetensors")
    built = network.encoder.state_dict()
    names = [name for name in stored if not name.startswith("pooler")]
    assert len(names) > 30
    for name in names:
        assert torch.equal(built[name][: len(stored[name])], stored[name]), name
    rows = built["embeddings.word_embeddings.weight"]
    markers = rows[[config.start_marker_id, config.end_marker_id]]
    torch.testing.assert_close(markers, rows[: config.start_marker_id].mean(dim=0).expand(2, -1))
    assert config.labels == ["O", *LABELS]
    assert (config.start_marker_id, config.position_offset) == (len(stored["embeddings.word_embeddings.weight"]), 0)


def test_first_layers_only_and_no_others_than_there_are(encoder):
    config, network, _ = new_model(encoder, LABELS, TrainingSettings(**LIMITS, encoder_layers=1))
    assert config.encoder["num_hidden_layers"] == len(network.encoder.encoder.layer) == 1
    error = refused(encoder, TrainingSettings(**LIMITS, encoder_layers=3))
    assert error.code == "encoder.too_few_layers"
    assert (error.values["found"], error.values["limit"]) == (3, 2)


def test_no_such_folder(tmp_path):
    assert refused(tmp_path / "nowhere").code == "encoder.not_found"
    assert refused("bert-base-cased").code == "encoder.not_found"


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda f: [file.unlink() for file in f.iterdir()], "cannot read config.json"),
        (write("config.json", "{"), "cannot read config.json"),
        (config_says(model_type="nonsense"), "'nonsense'"),
        (config_says(hidden_size=64), "cannot load its weights"),
        (config_says(num_hidden_layers=3), "its weights lack encoder.layer.2"),
        (bin_holds(), "Pickled weights (pytorch_model.bin) are not supported"),
        (write("model.safetensors", "torn"), "cannot load its weights"),
        (weights_are(lambda w: w.pop("embeddings.LayerNorm.weight")), "lack embeddings.LayerNorm.weight"),
        (weights_are(lambda w: w["embeddings.LayerNorm.bias"].fill_(torch.inf)), "32 values that are"),
        (without("tokenizer.json"), "tokenizer"),
        (write("config.json", "{}"), "cannot use the encoder's config"),
        (write("tokenizer.json", "{}"), "cannot read its tokenizer"),
        (index_is({"weight_map": {"a": "../outside"}}), "'../outside', which is not in this folder"),
    ],
)
def test_folders_that_hold_no_encoder(copy, damage, says):
    damage(copy)
    error = refused(copy)
    assert error.code == "encoder.unreadable"
    assert says in str(error)
    assert len(str(error)) < 1_000  # transformers lists hundreds of model types


def test_missing_vocabulary_is_not_made_up(copy):
    """transformers would go on with a vocabulary of five special tokens."""
    without("tokenizer.json")(copy)
    write("tokenizer_config.json", '{"tokenizer_class": "BertTokenizer"}')(copy)
    error = refused(copy)
    assert error.code == "encoder.unreadable"
    assert "it has no tokenizer.json and no vocab.txt" in str(error)


def test_a_tokenizer_of_another_encoder(tmp_path):
    tokenizer = tiny_tokenizer("bert")
    small = tiny_encoder("bert", vocabulary=tokenizer.get_vocab_size() - 1)
    error = refused(write_encoder(tmp_path / "encoder", model=small))
    assert error.code == "encoder.unreadable"
    assert "ids up to" in str(error)


def test_half_precision_encoders_without_a_pooler_train_in_full(copy):
    AutoModel.from_pretrained(copy).half().save_pretrained(copy)
    weights_are(lambda w: [w.pop(name) for name in list(w) if name.startswith("pooler")])(copy)
    _, network, _ = new_model(copy, LABELS, SETTINGS)
    assert {weight.dtype for weight in network.parameters()} == {torch.float32}


def test_a_config_chooses_no_code(copy):
    evil = {"_attn_implementation": "evil/kernel", "quantization_config": {"quant_method": "x"}, "dtype": "float16"}
    config_says(**evil, auto_map={"AutoModel": "evil--model.Evil"})(copy)
    config, _, _ = new_model(copy, LABELS, SETTINGS)
    assert not set(config.encoder) & {*evil, "auto_map"}


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({"max_tokens": 81}, "encoder.window_too_long"),
        ({"max_tokens": 15}, "encoder.window_too_short"),
        ({"max_tokens": 48, "entity_max_length": 24}, "encoder.entity_too_long"),
    ],
)
def test_limits(encoder, limits, code):
    with pytest.raises(CoreError) as caught:
        new_model(encoder, LABELS, TrainingSettings(**limits))
    assert caught.value.code == code
    new_model(encoder, LABELS, TrainingSettings(max_tokens=48, entity_max_length=23))


@pytest.mark.parametrize("labels", [["a", "a"], ["\ud800"], [""], ["O"]])
def test_labels_that_could_not_be_stored(encoder, labels):
    assert "label" in str(refused(encoder, labels=labels))


def test_a_lone_surrogate_is_no_label():
    assert "surrogate" in label_problem("per\udc00son")
    assert label_problem("Personne à l’œuvre 😀") is None


def test_quiet_and_as_it_was_afterwards(copy, capfd):
    weights_are(lambda w: w.update({"surprise.weight": torch.zeros(2)}))(copy)
    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    new_model(copy, LABELS, SETTINGS)
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "")
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before


def byte_level(*before):
    tokenizer = tiny_tokenizer("roberta")
    parts = [*before, pre_tokenizers.ByteLevel(add_prefix_space=False)]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(parts) if before else parts[0]
    return tokenizer


@pytest.mark.parametrize(
    ("tokenizer", "tokens"),
    [
        (byte_level(), ["Ġthe", "Ġof"]),
        (byte_level(pre_tokenizers.Split(Regex(r"\n"), "isolated")), ["Ġthe", "Ġof"]),
        # Never saw a space in training, so it must see none now.
        (byte_level(pre_tokenizers.WhitespaceSplit()), ["t", "h", "e", "o", "f"]),
    ],
)
def test_words_of_a_list_are_read_as_after_a_space(tmp_path, tokenizer, tokens):
    assert tokenizer.encode("x the of", add_special_tokens=False).tokens[1:] == tokens
    found = new_model(write_encoder(tmp_path / "encoder", "roberta", tokenizer=tokenizer), LABELS, SETTINGS)[2]
    assert found.encode(["the", "of"], is_pretokenized=True, add_special_tokens=False).tokens == tokens


def test_a_byte_level_tokenizer_that_cannot_is_refused(tmp_path):
    """As GPT-4's: its own pattern cuts, and the byte level after it would put a space before every piece."""
    tokenizer = byte_level(pre_tokenizers.Split(Regex(r" ?\w+|[^\w\s]+"), "isolated"))
    error = refused(write_encoder(tmp_path / "encoder", "roberta", tokenizer=tokenizer))
    assert error.code == "encoder.unreadable"
    assert "like words after a space" in str(error)


def test_other_tokenizers_are_left_alone():
    for family in ("bert", "xlm-roberta"):
        tokenizer = tiny_tokenizer(family)
        before = tokenizer.to_str()
        put_spaces_before_words(tokenizer)
        assert tokenizer.to_str() == before
    put_spaces_before_words(Tokenizer(models.BPE()))


def test_the_context_policy_is_kept(encoder):
    settings = TrainingSettings(**LIMITS, context="document", max_prev_context=1, max_next_context=2)
    assert new_model(encoder, LABELS, settings)[0].context == Context("document", 1, 2)

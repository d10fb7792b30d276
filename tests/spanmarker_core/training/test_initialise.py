"""New models around pretrained encoders: what is accepted, what is refused and why."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import AutoModel, PreTrainedTokenizerFast
from transformers.utils import logging

from spanmarker_core.bundle.pretrained import put_spaces_before_words
from spanmarker_core.errors import CoreError
from spanmarker_core.text.tag_schemes import label_problem
from spanmarker_core.training import TrainingSettings
from spanmarker_core.training.initialise import new_model
from spanmarker_core.windows.packer import Context
from tests.support.tiny import tiny_encoder, tiny_tokenizer

LIMITS = {"entity_max_length": 4, "max_tokens": 48}
SETTINGS = TrainingSettings(**LIMITS)
LABELS = ["location", "person"]


def write_encoder(path, family="bert", model=None, tokenizer=None):
    tokenizer = tokenizer or tiny_tokenizer(family)
    unknown = "[UNK]" if tokenizer.token_to_id("[UNK]") is not None else "<unk>"
    (model or tiny_encoder(family, vocabulary=tokenizer.get_vocab_size())).save_pretrained(path)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token=unknown).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return write_encoder(tmp_path_factory.mktemp("encoder") / "bert")


@pytest.fixture
def encoder(original, tmp_path):
    return shutil.copytree(original, tmp_path / "encoder")


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


def test_first_layers_only(encoder):
    config, network, _ = new_model(encoder, LABELS, TrainingSettings(**LIMITS, encoder_layers=1))
    assert config.encoder["num_hidden_layers"] == len(network.encoder.encoder.layer) == 1


def test_layers_that_the_encoder_does_not_have(encoder):
    error = refused(encoder, TrainingSettings(**LIMITS, encoder_layers=3))
    assert error.code == "encoder.too_few_layers"
    assert (error.values["found"], error.values["limit"]) == (3, 2)


def test_no_such_folder(tmp_path):
    assert refused(tmp_path / "nowhere").code == "encoder.not_found"
    assert refused("bert-base-cased").code == "encoder.not_found"


def rewrite_config(folder, **changes):
    values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**values, **changes}), encoding="utf-8")


def edit_weights(folder, change):
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def to_bin(folder):
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda f: [file.unlink() for file in f.iterdir()], "config.json can't be read"),
        (lambda f: (f / "config.json").write_text("{"), "config.json can't be read"),
        (lambda f: rewrite_config(f, model_type="nonsense"), "'nonsense'"),
        (lambda f: rewrite_config(f, hidden_size=64), "its weights can't be loaded"),
        (lambda f: rewrite_config(f, num_hidden_layers=3), "its weights lack encoder.layer.2"),
        (to_bin, "Pickled weights (pytorch_model.bin) are not read"),
        (lambda f: (f / "model.safetensors").write_bytes(b"torn"), "its weights can't be loaded"),
        (lambda f: edit_weights(f, lambda w: w.pop("embeddings.LayerNorm.weight")), "lack embeddings.LayerNorm.weight"),
        (lambda f: edit_weights(f, lambda w: w["embeddings.LayerNorm.bias"].fill_(torch.inf)), "32 values that are"),
        (lambda f: (f / "tokenizer.json").unlink(), "tokenizer"),
        (lambda f: (f / "tokenizer.json").write_text("{}"), "its tokenizer can't be read"),
        (
            lambda f: (f / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../outside"}}'),
            "'../outside', which is not in this folder",
        ),
    ],
)
def test_folders_that_hold_no_encoder(encoder, damage, says):
    damage(encoder)
    error = refused(encoder)
    assert error.code == "encoder.unreadable"
    assert says in str(error)


def test_missing_vocabulary_is_not_made_up(encoder):
    """transformers would go on with a vocabulary of five special tokens."""
    (encoder / "tokenizer.json").unlink()
    (encoder / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}', encoding="utf-8")
    error = refused(encoder)
    assert error.code == "encoder.unreadable"
    assert "it has no tokenizer.json and no vocab.txt" in str(error)


def test_a_tokenizer_of_another_encoder(tmp_path):
    tokenizer = tiny_tokenizer("bert")
    small = tiny_encoder("bert", vocabulary=tokenizer.get_vocab_size() - 1)
    error = refused(write_encoder(tmp_path / "encoder", model=small))
    assert error.code == "encoder.unreadable"
    assert "ids up to" in str(error)


def test_a_missing_pooler_is_no_loss(encoder):
    edit_weights(encoder, lambda w: [w.pop(name) for name in list(w) if name.startswith("pooler")])
    new_model(encoder, LABELS, SETTINGS)


def test_half_precision_encoders_train_in_full(encoder):
    AutoModel.from_pretrained(encoder).half().save_pretrained(encoder)
    _, network, _ = new_model(encoder, LABELS, SETTINGS)
    assert {weight.dtype for weight in network.parameters()} == {torch.float32}


def test_a_config_chooses_no_code(encoder):
    evil = {"_attn_implementation": "evil/kernel", "quantization_config": {"quant_method": "x"}, "dtype": "float16"}
    rewrite_config(encoder, **evil, auto_map={"AutoModel": "evil--model.Evil"})
    config, _, _ = new_model(encoder, LABELS, SETTINGS)
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


@pytest.mark.parametrize("option", ["splitter", "weight_dtype"])
def test_settings_outside_their_choices(option):
    with pytest.raises(CoreError) as caught:
        TrainingSettings(**{option: "x"})
    assert caught.value.code == "call.unknown_option"
    assert (caught.value.values["option"], caught.value.values["value"]) == (option, "x")


def test_quiet_and_as_it_was_afterwards(encoder, capfd):
    edit_weights(encoder, lambda w: w.update({"surprise.weight": torch.zeros(2)}))
    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    new_model(encoder, LABELS, SETTINGS)
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
    assert "as it reads words after spaces" in str(error)


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

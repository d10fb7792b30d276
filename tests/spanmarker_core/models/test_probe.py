"""Encoders that no config gives away: found by their numbers where a model begins, by training and by importing."""

from pathlib import Path

import pytest
import torch
from tokenizers import AddedToken
from transformers import AutoConfig, AutoModel
from transformers.models.bert.modeling_bert import BertEmbeddings
from transformers.models.electra.modeling_electra import ElectraEmbeddings

from spanmarker_core.errors import CoreError
from spanmarker_core.integrations.span_marker import import_span_marker
from spanmarker_core.models import probe, span_marker
from spanmarker_core.models.encoders import native_position_offset
from spanmarker_core.models.probe import check_states
from spanmarker_core.models.span_marker import SpanMarkerModel
from spanmarker_core.training.initialise import new_model
from tests.support.tiny import tiny_encoder, tiny_model, tiny_tokenizer
from tests.support.training import SETTINGS, write_encoder

LABELS = ["location", "person"]
GOLDEN = Path(__file__).parents[2] / "parity" / "golden"
ESM = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "pad_token_id": 1}


def blur(embeddings, monkeypatch):
    """Make a kind of embeddings take in those of the next token, as MobileBERT's do; its config says nothing of it."""
    forward = embeddings.forward

    def blurred(self, *args, **kwargs):
        states = forward(self, *args, **kwargs)
        return states + torch.nn.functional.pad(states[:, 1:], (0, 0, 0, 1))

    monkeypatch.setattr(embeddings, "forward", blurred)


def test_an_encoder_that_looks_beside_a_token_is_refused_for_a_new_model(tmp_path, monkeypatch):
    path = write_encoder(tmp_path / "encoder")
    _, network, _ = new_model(path, LABELS, SETTINGS)
    assert network.training
    blur(BertEmbeddings, monkeypatch)
    with pytest.raises(CoreError) as caught:
        new_model(path, LABELS, SETTINGS)
    assert (caught.value.code, caught.value.values["encoder"]) == ("encoder.not_independent", "BertModel")
    assert "of a text" in caught.value.values["states"]


def test_and_when_a_checkpoint_is_imported(tmp_path, monkeypatch):
    blur(ElectraEmbeddings, monkeypatch)
    with pytest.raises(CoreError, match=r"encoder.not_independent.* ElectraModel"):
        import_span_marker(GOLDEN / "electra", tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


def test_markers_that_are_placed_by_their_turn_are_found(monkeypatch):
    """Positions counted from the row's begin: as good as relative for rotary kinds, where text alone shows nothing."""
    network, tokenizer = model_of(tiny_encoder("bert", tiny_tokenizer("bert").get_vocab_size() + 2))
    check_states(network, tokenizer, [2], [3])
    encode = network._encode

    def in_turn(token_ids, positions, levitated):
        from_zero = isinstance(levitated, span_marker.MarkerPass)
        return encode(token_ids, torch.arange(len(positions)).numpy() if from_zero else positions, levitated)

    monkeypatch.setattr(network, "_encode", in_turn)
    with pytest.raises(CoreError) as caught:
        check_states(network, tokenizer, [2], [3])
    assert caught.value.code == "encoder.not_independent"
    assert "of a span" in caught.value.values["states"]


def model_of(encoder):
    tokenizer = tiny_tokenizer("bert")
    start = tokenizer.get_vocab_size()
    config, _, _ = tiny_model(
        start_marker_id=start, end_marker_id=start + 1, position_offset=native_position_offset(encoder)
    )
    return SpanMarkerModel(encoder, config), tokenizer


@pytest.mark.parametrize("dropout", [False, True])
def test_a_special_token_that_changes_all_the_others_is_found(dropout):
    """ESM scales its embeddings by the share of mask tokens in the batch. A text may spell one."""
    tokenizer = tiny_tokenizer("bert")
    sizes = {**ESM, "vocab_size": tokenizer.get_vocab_size() + 2, "mask_token_id": 4, "max_position_embeddings": 80}
    torch.manual_seed(3)
    encoder = AutoModel.from_config(
        AutoConfig.for_model("esm", **sizes, token_dropout=dropout), attn_implementation="eager"
    )
    network, tokenizer = model_of(encoder)
    tokenizer.add_special_tokens([AddedToken("[MASK]")])
    if not dropout:
        check_states(network, tokenizer, [2], [3])
        return
    with pytest.raises(CoreError, match=r"encoder.not_independent.* EsmModel"):
        check_states(network, tokenizer, [2], [3])


def test_the_probe_draws_nothing_and_takes_what_is_not_a_number_for_a_difference(monkeypatch):
    network, tokenizer = model_of(tiny_encoder("bert", tiny_tokenizer("bert").get_vocab_size() + 2))
    before = torch.get_rng_state()
    check_states(network, tokenizer, [2], [3])
    assert torch.equal(torch.get_rng_state(), before)
    own = probe._own_states
    monkeypatch.setattr(probe, "_own_states", lambda *args: own(*args) * float("nan"))
    with pytest.raises(CoreError) as caught:
        check_states(network, tokenizer, [2], [3])
    assert (caught.value.code, caught.value.values["found"]) == ("encoder.not_independent", "nan")

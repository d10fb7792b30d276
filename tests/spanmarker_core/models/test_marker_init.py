"""Where the embeddings of the markers of a new model start from."""

import pytest
import torch
from tokenizers import Tokenizer
from transformers import AutoModel

from spanmarker_core.errors import CoreError
from spanmarker_core.training.initialise import new_model
from tests.support.training import SETTINGS, write_encoder


@pytest.mark.parametrize(
    ("family", "pieces"), [("bert", ["e", *("##" + c for c in "ntity")]), ("roberta", ["Ġ", *"entity"])]
)
def test_markers_can_start_from_mask_and_entity(family, pieces, tmp_path):
    path = write_encoder(tmp_path / "encoder", family)
    settings = SETTINGS.replace(options={"marker_init": "mask_and_entity"})
    config, network, tokenizer = new_model(path, ["person"], settings)
    rows = network.encoder.get_input_embeddings().weight
    stored = AutoModel.from_pretrained(path).get_input_embeddings().weight
    mask = tokenizer.token_to_id("[MASK]" if family == "bert" else "<mask>")
    assert torch.equal(rows[config.start_marker_id], stored[mask])
    word = stored[[tokenizer.token_to_id(piece) for piece in pieces]].mean(dim=0)
    torch.testing.assert_close(rows[config.end_marker_id], word)
    assert torch.equal(rows[: len(stored)], stored)


def test_a_word_that_is_one_token_is_that_token(tmp_path):
    path = write_encoder(tmp_path / "encoder", "bert")
    tokenizer = Tokenizer.from_file(str(path / "tokenizer.json")).to_str().replace('"paris"', '"entity"')
    (path / "tokenizer.json").write_text(tokenizer)
    settings = SETTINGS.replace(options={"marker_init": "mask_and_entity"})
    config, network, tokenizer = new_model(path, ["person"], settings)
    rows = network.encoder.get_input_embeddings().weight
    assert torch.equal(rows[config.end_marker_id], rows[tokenizer.token_to_id("entity")])


def test_an_encoder_without_a_mask_token_has_none_to_start_from(tmp_path):
    path = write_encoder(tmp_path / "encoder", "xlm-roberta")
    with pytest.raises(CoreError, match="has no mask token"):
        new_model(path, ["person"], SETTINGS.replace(options={"marker_init": "mask_and_entity"}))

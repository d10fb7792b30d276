"""The checkpoint for the peers is the bundle: the importer brings it back."""

import json

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel, AutoTokenizer

from benchmarks.export import ExportError, export_encoder, export_span_marker, with_limits
from spanmarker_core import load
from spanmarker_core.errors import CoreError
from spanmarker_core.integrations.span_marker import import_span_marker
from tests.support.tiny import tiny_bundle

SENTENCES = [["obama", "flew", "to", "new", "york"], ["the", "müller", "was", "in", "paris", "."]]
POSITIONS = "encoder.embeddings.position_embeddings.weight"
WORDS = "encoder.embeddings.word_embeddings.weight"


def spans(entity):
    return entity.word_start, entity.word_end, entity.label


@pytest.mark.parametrize("family", ["bert", "roberta", "electra"])
def test_exported_and_imported_again_it_tags_alike(family, tmp_path):
    bundle = tiny_bundle(tmp_path / "ours", family)
    import_span_marker(export_span_marker(bundle, tmp_path / "theirs"), tmp_path / "back")
    ours, back = load(bundle), load(tmp_path / "back")
    assert back.config.position_offset == 2
    assert (back.config.labels, back.config.max_tokens) == (ours.config.labels, ours.config.max_tokens)
    for left, right in zip(ours.tag_words(SENTENCES), back.tag_words(SENTENCES), strict=True):
        assert [(e.word_start, e.word_end, e.label) for e in left] == [
            (e.word_start, e.word_end, e.label) for e in right
        ]
        assert [e.score for e in left] == pytest.approx([e.score for e in right], abs=1e-6)
    assert any(ours.tag_words(SENTENCES))


@pytest.mark.parametrize(("family", "shift"), [("bert", 2), ("roberta", 0)])
def test_tensors_come_back_equal_but_for_where_rows_stand(family, shift, tmp_path):
    bundle = tiny_bundle(tmp_path / "ours", family)
    import_span_marker(export_span_marker(bundle, tmp_path / "theirs"), tmp_path / "back")
    ours, back = load_file(bundle / "model.safetensors"), load_file(tmp_path / "back" / "model.safetensors")
    assert ours.keys() == back.keys()
    for name in ours.keys() - {POSITIONS, WORDS}:
        assert torch.equal(ours[name], back[name]), name
    assert torch.equal(ours[POSITIONS], back[POSITIONS][shift:])
    rows = len(ours[WORDS])
    assert torch.equal(ours[WORDS], back[WORDS][:rows])
    assert not back[WORDS][rows:].any()


def test_encoder_is_the_bundles(tmp_path):
    bundle = tiny_bundle(tmp_path / "ours")
    folder = export_encoder(bundle, tmp_path / "encoder")
    encoder = AutoModel.from_pretrained(folder)
    weights = load_file(bundle / "model.safetensors")
    for name, weight in encoder.state_dict().items():
        assert name.startswith("pooler.") or torch.equal(weight, weights[f"encoder.{name}"])
    ours = load(bundle).packer
    (encoded,) = ours.encode_words([SENTENCES[0]])
    ids = AutoTokenizer.from_pretrained(folder)(" ".join(SENTENCES[0]))["input_ids"]
    assert ids == [*ours.prefix.tolist(), *encoded.token_ids.tolist(), *ours.suffix.tolist()]


def test_limits_of_a_copy(tmp_path):
    bundle = tiny_bundle(tmp_path / "ours")
    copy = load(with_limits(bundle, tmp_path / "copy", max_tokens=80, entity_max_length=2))
    assert (copy.packer.max_tokens, copy.config.entity_max_length) == (80, 2)
    with pytest.raises(CoreError, match=r"\[bundle.bad_config\]") as caught:
        with_limits(bundle, tmp_path / "long", max_tokens=81)
    assert "80 positions" in caught.value.values["problem"]


def test_what_the_library_cannot_run_is_refused(tmp_path):
    bundle = tiny_bundle(tmp_path / "ours", "distilbert")
    with pytest.raises(ExportError, match="not distilbert"):
        export_span_marker(bundle, tmp_path / "theirs")


def test_checkpoint_names_its_limits(tmp_path):
    folder = export_span_marker(tiny_bundle(tmp_path / "ours"), tmp_path / "theirs")
    values = json.loads((folder / "config.json").read_text())
    assert (values["model_max_length"], values["marker_max_length"], values["entity_max_length"]) == (48, 128, 4)
    assert values["encoder"]["max_position_embeddings"] == 82

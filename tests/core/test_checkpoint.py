"""Importing checkpoints of the span_marker library: what is accepted, what is refused and why."""

import json
import re
import shutil
import socket
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from spanmarker_core import load
from spanmarker_core.checkpoint import import_span_marker
from spanmarker_core.errors import CoreError
from spanmarker_core.windows import Context

GOLDEN = Path(__file__).parents[1] / "parity" / "golden"


@pytest.fixture
def copy(tmp_path):
    return shutil.copytree(GOLDEN / "electra", tmp_path / "checkpoint")


def edit(path: Path, **changes):
    values = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**values, **changes}), encoding="utf-8")


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


def test_bin_and_safetensors_give_one_model(copy, tmp_path):
    import_span_marker(copy, tmp_path / "first")
    weights = load_file(copy / "model.safetensors")
    torch.save(weights, copy / "pytorch_model.bin")
    (copy / "model.safetensors").unlink()
    import_span_marker(copy, tmp_path / "second")
    assert (tmp_path / "first" / "digests.json").read_text() == (tmp_path / "second" / "digests.json").read_text()


def test_weights_in_several_files(copy, tmp_path):
    import_span_marker(copy, tmp_path / "first")
    weights = load_file(copy / "model.safetensors")
    (copy / "model.safetensors").unlink()
    names = sorted(weights)
    parts = {"model-1.safetensors": names[::2], "model-2.safetensors": names[1::2]}
    for file, members in parts.items():
        save_file({name: weights[name] for name in members}, copy / file)
    where = {name: file for file, members in parts.items() for name in members}
    (copy / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}), encoding="utf-8")
    import_span_marker(copy, tmp_path / "second")
    assert (tmp_path / "first" / "digests.json").read_text() == (tmp_path / "second" / "digests.json").read_text()


def test_a_pickle_that_would_run_code_is_refused(copy, tmp_path):
    class Attack:
        def __reduce__(self):
            return Path.touch, (tmp_path / "attacked",)

    torch.save({"classifier.weight": Attack()}, copy / "pytorch_model.bin")
    (copy / "model.safetensors").unlink()
    assert refused(copy, tmp_path).code == "checkpoint.not_span_marker"
    assert not (tmp_path / "attacked").exists()


def test_no_outside_label(copy, tmp_path):
    edit(copy / "config.json", id2label={"0": "X", "1": "LOC", "2": "ORG", "3": "PER"})
    assert refused(copy, tmp_path).code == "checkpoint.no_outside_label"


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda c: edit(c / "config.json", model_type="bert"), "model_type 'bert'"),
        (lambda c: (c / "config.json").write_text("{"), "can't be read"),
        (lambda c: (c / "config.json").unlink(), "can't be read"),
        (lambda c: (c / "model.safetensors").unlink(), "no model.safetensors"),
        (lambda c: (c / "model.safetensors").write_bytes(b"torn"), "can't be read"),
        (lambda c: (c / "tokenizer_config.json").unlink(), "can't be read"),
        (lambda c: edit(c / "config.json", encoder={"model_type": "deberta-v2"}), "deberta|no labels|encoder"),
        (lambda c: edit(c / "config.json", entity_max_length=None), "entity_max_length"),
    ],
)
def test_refused_with_the_reason(copy, tmp_path, damage, says):
    damage(copy)
    error = refused(copy, tmp_path)
    assert error.code.split(".")[0] in ("checkpoint", "encoder")
    assert re.search(says, str(error))


def test_missing_weight(copy, tmp_path):
    weights = load_file(copy / "model.safetensors")
    del weights["classifier.bias"]
    save_file(weights, copy / "model.safetensors")
    assert "classifier.bias" in str(refused(copy, tmp_path))

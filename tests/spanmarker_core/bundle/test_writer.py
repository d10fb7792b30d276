"""Writing bundles: only to local folders that are free, what can be loaded again, and as a whole or not at all."""

import pytest
import torch

from spanmarker_core import load
from spanmarker_core.bundle.reader import read_config
from spanmarker_core.bundle.writer import check_output, save_bundle
from spanmarker_core.errors import CoreError
from tests.support.tiny import tiny_model


def refused(output) -> str:
    with pytest.raises(CoreError) as caught:
        check_output(output)
    return caught.value.code


@pytest.mark.parametrize(
    "path",
    [
        *("/proc/nope/bundle", "/etc/passwd/bundle", "x" * 300, "a\0b"),
        *("s3://bucket/bundle", "memory://bundle", "file:///tmp/bundle"),
    ],
)
def test_output_that_cannot_be_written(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refused(path) == "bundle.output_not_writable"
    assert list(tmp_path.iterdir()) == []


def test_checking_an_output_leaves_nothing(tmp_path):
    check_output(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "empty").mkdir()
    check_output(tmp_path / "empty")
    assert list((tmp_path / "empty").iterdir()) == []
    (tmp_path / "file").touch()
    assert refused(tmp_path / "file") == "bundle.output_exists"
    assert refused(tmp_path / "file" / "bundle") == "bundle.output_not_writable"


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), SystemExit(), OSError(28, "No space left on device")])
def test_what_ends_the_writing_leaves_nothing(tmp_path, monkeypatch, raised):
    config, network, tokenizer = tiny_model()
    output = tmp_path / "new" / "bundle"

    def interrupted(path):
        raise raised

    with monkeypatch.context() as patch:
        patch.setattr("spanmarker_core.bundle.writer.write_digests", interrupted)
        expected = CoreError if isinstance(raised, OSError) else type(raised)
        with pytest.raises(expected) as caught:
            save_bundle(output, config, network, tokenizer, "", files={"gate.svg": "<svg/>"})
    if expected is CoreError:
        assert caught.value.code == "bundle.output_not_writable"
        assert "no space left" in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    assert save_bundle(output, config, network, tokenizer, "")
    with pytest.raises(CoreError, match=r"bundle\.output_exists"):
        save_bundle(output, config, network, tokenizer, "")
    assert read_config(config.to_json(), "x") == config == load(output).config


@pytest.mark.parametrize(("value", "dtype"), [(torch.nan, "float32"), (1e6, "float16")])
def test_weights_that_could_not_be_loaded_are_not_written(tmp_path, value, dtype):
    config, network, tokenizer = tiny_model()
    with torch.no_grad():
        network.classifier.weight[0, 0] = value
    with pytest.raises(CoreError, match=r"bundle\.nan_weight"):
        save_bundle(tmp_path / "bundle", config, network, tokenizer, "", dtype=dtype)
    assert not (tmp_path / "bundle").exists()

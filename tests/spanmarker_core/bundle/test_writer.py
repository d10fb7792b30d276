"""Writing bundles: what ends it early leaves nothing, and only local folders will do."""

import pytest

from spanmarker_core.bundle import writer as saving
from spanmarker_core.bundle.writer import check_output, save_bundle
from spanmarker_core.errors import CoreError
from tests.support.tiny import tiny_model


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_goes_on_and_leaves_nothing(tmp_path, monkeypatch, raised):
    config, network, tokenizer = tiny_model()
    output = tmp_path / "new" / "bundle"

    def interrupted(path):
        raise raised

    with monkeypatch.context() as patch:
        patch.setattr(saving, "write_digests", interrupted)
        with pytest.raises(raised):
            save_bundle(output, config, network, tokenizer, "", files={"gate.svg": "<svg/>"})
    assert list(tmp_path.iterdir()) == []
    assert save_bundle(output, config, network, tokenizer, "")


@pytest.mark.parametrize("url", ["s3://bucket/bundle", "memory://bundle", "file:///tmp/bundle"])
def test_a_url_is_no_folder(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CoreError, match=r"bundle\.output_not_writable.*written to local folders"):
        check_output(url)
    assert list(tmp_path.iterdir()) == []

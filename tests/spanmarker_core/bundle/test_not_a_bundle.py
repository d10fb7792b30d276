"""Folders that hold another kind of model are named as such."""

import json

import pytest

from spanmarker_core.bundle.reader import read_info
from spanmarker_core.errors import CoreError


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({"model_type": "bert"}, "bundle.is_encoder"),
        ({"model_type": "span-marker", "architectures": ["SpanMarkerModel"]}, "bundle.is_checkpoint"),
        ({"some": "thing"}, "bundle.not_found"),
        ([], "bundle.not_found"),
        (None, "bundle.not_found"),
    ],
)
def test_a_folder_says_what_it_is_instead(tmp_path, config, code):
    if config is not None:
        (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(CoreError) as caught:
        read_info(tmp_path)
    assert caught.value.code == code

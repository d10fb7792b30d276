"""Files beside one that does not exist are suggested by their names."""

import pytest

from spanmarker_core.data import read_annotated
from spanmarker_core.data.nearby import suggest_file
from spanmarker_core.errors import CoreError


def test_a_similar_name_in_the_same_folder_is_suggested(tmp_path):
    (tmp_path / "train.jsonl").touch()
    with pytest.raises(CoreError) as caught:
        read_annotated(tmp_path / "train.jsnol")
    assert caught.value.code == "data.not_found"
    assert f"{tmp_path}/train.jsonl?" in str(caught.value)
    assert suggest_file(tmp_path / "quite-another") == ""


def test_a_similar_folder_is_suggested_or_the_missing_one_named(tmp_path):
    (tmp_path / "lake").mkdir()
    assert f"{tmp_path}/lake?" in suggest_file(tmp_path / "lkae" / "a.jsonl")
    assert str(tmp_path / "other") in suggest_file(tmp_path / "other" / "x" / "a.jsonl")


@pytest.mark.parametrize("path", ["s3://bucket/docs", "memory://x"])
def test_nothing_is_listed_in_a_store(path):
    assert suggest_file(path) == ""

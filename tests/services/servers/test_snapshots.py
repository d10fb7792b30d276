"""`spanmarker tag --commit` on S3: Delta without more, Iceberg in a catalogue that is configured."""

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.utils import config

from pipelines.errors import PipelineError
from pipelines.output.manifest import committed_names
from pipelines.storage import resolve
from tests.support.jobs import SMALL, documents, tag, write_jsonl


def run(tmp_path, output, model, form, prefix):
    return tag([write_jsonl(tmp_path / "a.jsonl", documents(8, prefix))], output, model, commit=form, **SMALL)


def refused(tmp_path, output, model):
    with pytest.raises(PipelineError) as error:
        run(tmp_path, output, model, None, "b")
    return error.value.code == "snapshot.commit_needed"


def expected(output, name) -> pa.Table:
    fs, folder = resolve(f"{output}/{name}")
    files = [f"{folder}/{shard}.parquet" for shard in committed_names(output)]
    return ds.dataset(files, filesystem=fs).to_table()


def same(found: pa.Table, wanted: pa.Table) -> bool:
    return sorted(map(repr, found.to_pylist())) == sorted(map(repr, wanted.to_pylist()))


def test_delta(s3, tmp_path, tiny_bundle, s3_server):
    options = {"aws_allow_http": "true", "aws_endpoint_url": s3_server.endpoint}
    for number, prefix in enumerate(("a", "b")):
        run(tmp_path, s3, tiny_bundle, "delta", prefix)
        assert "nothing has changed" in run(tmp_path, s3, tiny_bundle, "delta", prefix)
        for name in ("annotations", "documents", "rejects"):
            table = DeltaTable(f"{s3}/{name}", storage_options=options)
            assert table.version() == number
            assert same(table.to_pyarrow_table(), expected(s3, name))
    assert refused(tmp_path, s3, tiny_bundle)


def test_iceberg(s3, tmp_path, tiny_bundle, s3_server, monkeypatch):
    with pytest.raises(PipelineError) as error:
        run(tmp_path, s3, tiny_bundle, "iceberg", "a")
    assert error.value.code == "snapshot.no_catalogue"
    here = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": s3, "namespace": "news"}
    configured = config.Config()
    configured.config = {"catalog": {"spanmarker": here}}
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", configured)
    for number, prefix in enumerate(("a", "b")):
        run(tmp_path, s3, tiny_bundle, "iceberg", prefix)
        assert "nothing has changed" in run(tmp_path, s3, tiny_bundle, "iceberg", prefix)
        for name in ("annotations", "documents", "rejects"):
            table = load_catalog("spanmarker", **{"s3.endpoint": s3_server.endpoint}).load_table(("news", name))
            assert len(table.snapshots()) == number + 1
            assert same(table.scan().to_arrow(), expected(s3, name))
    assert refused(tmp_path, s3, tiny_bundle)

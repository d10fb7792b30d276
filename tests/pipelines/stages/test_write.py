import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.stages import write
from pipelines.stages.write import table_writer
from schemas import DOCUMENTS


def batch(count):
    row = dict.fromkeys(DOCUMENTS.schema.names, 0) | {"document_id": "d", "source": "s", "status": "tagged"}
    row |= {"language": "en", "language_from": "option"}
    return pa.RecordBatch.from_pylist([row] * count, schema=DOCUMENTS.schema)


def test_small_batches_make_few_row_groups_and_large_ones_are_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(write, "MAX_GROUP_ROWS", 100)
    with table_writer(f"{tmp_path}/a.parquet", DOCUMENTS, {"run": "r"}) as writer:
        for count in (1, 30, 0, 80, 250, 5):
            writer.write(batch(count))
        output = writer.finish()
    metadata = pq.read_metadata(tmp_path / "a.parquet")
    assert output.rows == metadata.num_rows == 366
    assert output.n_bytes == (tmp_path / "a.parquet").stat().st_size
    groups = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    assert max(groups) <= 100
    assert len(groups) <= 6
    assert pq.read_schema(tmp_path / "a.parquet").metadata[b"spanmarker.run"] == b"r"


def test_a_table_without_rows_has_its_schema(tmp_path):
    with table_writer(f"{tmp_path}/a.parquet", DOCUMENTS, {}) as writer:
        writer.finish()
    assert pq.read_table(tmp_path / "a.parquet").schema.equals(DOCUMENTS.schema)

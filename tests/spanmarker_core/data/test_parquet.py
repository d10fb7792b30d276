import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spanmarker_core.data import Sentence, Span, read_annotated
from spanmarker_core.errors import CoreError

TAG_TABLES = [
    {
        "document_id": 1,
        "sentence_id": 0,
        "tokens": ["Ada", "ran"],
        "entities": [{"start": 0, "end": 1, "label": "PER"}],
    },
    {"document_id": 1, "sentence_id": 2, "tokens": ["She", "won"], "entities": None},
]


def write(path, rows):
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def test_sentences_as_they_are(tmp_path):
    path = write(tmp_path / "a.parquet", TAG_TABLES)
    assert list(read_annotated(path)) == [
        Sentence("1", 0, ["Ada", "ran"], [Span(0, 1, "PER")]),
        Sentence("1", 2, ["She", "won"], []),
    ]


def test_faults_name_the_row_or_the_column(tmp_path):
    wrong = {**TAG_TABLES[1], "entities": [{"start": 0, "end": 3, "label": "PER"}]}
    for rows, message in (
        ([TAG_TABLES[0], wrong], r"data.bad_row.*row 1 \(from 0\): entity 0: start 0 and end 3 do not fit 2 words"),
        ([{**TAG_TABLES[0], "document_id": None}], r"data.bad_row.*row 0 \(from 0\): document_id None"),
        ([{"tokens": ["a"]}], r"data.bad_dataset.*it has no document_id, sentence_id, entities"),
    ):
        with pytest.raises(CoreError, match=message):
            list(read_annotated(write(tmp_path / "a.parquet", rows)))
    (tmp_path / "a.parquet").write_bytes(b"nothing of the kind")
    with pytest.raises(CoreError, match=r"data.bad_dataset.*cannot read"):
        list(read_annotated(tmp_path / "a.parquet"))
    with pytest.raises(CoreError, match=r"data.scheme_mismatch"):
        read_annotated(tmp_path / "a.parquet", "IOB2")

import pyarrow as pa

from pipelines.stages.split import split
from schemas import SENTENCES


def test_sentences_are_slices_with_numbers_from_zero():
    texts = ["One. Two 😀.", " \n", "  Three.\n\nFour. "]
    documents = pa.RecordBatch.from_pydict({"document_id": ["a", "b", "c"], "text": texts})
    sentences = split(documents, "en")
    assert sentences.schema.equals(SENTENCES.schema, check_metadata=True)
    rows = sentences.to_pylist()
    assert [(row["document_id"], row["sentence_id"], row["text"]) for row in rows] == [
        ("a", 0, "One."),
        ("a", 1, "Two 😀."),
        ("c", 0, "Three."),
        ("c", 1, "Four."),
    ]
    by_id = dict(zip("abc", texts, strict=True))
    assert all(by_id[row["document_id"]][row["char_start"] : row["char_end"]] == row["text"] for row in rows)


def test_no_documents_no_sentences():
    documents = pa.RecordBatch.from_pydict(
        {"document_id": pa.array([], pa.string()), "text": pa.array([], pa.string())}
    )
    assert len(split(documents, "en")) == 0

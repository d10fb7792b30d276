"""The queries of docs/how-to/queries.md run as they stand over the output of a real run."""

import re
from collections import Counter, defaultdict
from itertools import combinations
from pathlib import Path

import duckdb
import pytest

from tests.support.jobs import TEXTS, rows, tag, write_jsonl
from tests.support.tiny import tiny_bundle

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "queries.md"
QUERIES = re.findall(r"^```sql\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
USUAL = "He was in it on the for of York. She is at and to a was of Obama. It was Paris in the of."


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """Documents of which one, in the middle of a file, holds nothing that the model finds."""
    folder = tmp_path_factory.mktemp("queries")
    for name in "ab":
        texts = [USUAL if number != 7 or name == "b" else "Q\n\n" * 30 for number in range(15)]
        write_jsonl(folder / f"{name}.jsonl", [{"id": f"{name}{n}", "text": text} for n, text in enumerate(texts)])
    write_jsonl(folder / "short.jsonl", [{"id": f"s{n}", "text": text} for n, text in enumerate(TEXTS[:3])])
    write_jsonl(folder / "bad.jsonl", [{"id": "n", "text": None}, {"id": "e", "text": ""}])
    tag([folder / "*.jsonl"], folder / "out", tiny_bundle(folder / "bundle", "electra"), max_shard_bytes=900)
    return folder / "out"


def answer(query, output, monkeypatch):
    monkeypatch.chdir(output.parent)
    return duckdb.sql(query).fetchall()


def test_there_are_three():
    assert len(QUERIES) == 3


def test_the_texts_found_most_often(output, monkeypatch):
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    documents, scores = defaultdict(set), defaultdict(list)
    for row in rows(output, "annotations"):
        counts[row["label"]][row["text"]] += 1
        documents[row["label"], row["text"]].add(row["document_id"])
        scores[row["label"], row["text"]].append(row["score"])
    expected = []
    for label in sorted(counts):
        for text, count in sorted(counts[label].items(), key=lambda item: (-item[1], item[0]))[:3]:
            found = scores[label, text]
            expected.append(
                (label, text, count, len(documents[label, text]), pytest.approx(sum(found) / count, abs=6e-4))
            )
    assert answer(QUERIES[0], output, monkeypatch) == expected
    assert len(expected) > 3


def test_documents_with_a_sudden_drop(output, monkeypatch):
    found = answer(QUERIES[1], output, monkeypatch)
    documents = {row["document_id"]: row for row in rows(output, "documents")}
    assert documents["a7"]["n_entities"] == 0
    near = [row for row in documents.values() if row["document_id"][0] == "a" and row["status"] == "tagged"]
    usual = 1000 * sum(row["n_entities"] for row in near) / sum(row["n_words"] for row in near)
    assert found == [("a7", documents["a7"]["source"], 30, 0, pytest.approx(usual, abs=0.06))]


def test_entities_of_the_same_sentences(output, monkeypatch):
    sentences = defaultdict(set)
    for row in rows(output, "annotations"):
        if row["score"] >= 0.5:
            sentences[row["document_id"], row["sentence_id"]].add((row["text"], row["label"]))
    pairs = Counter(pair for found in sentences.values() for pair in combinations(sorted(found), 2))
    expected = [
        (*one, *other, count) for (one, other), count in sorted(pairs.items(), key=lambda item: (-item[1], item[0]))
    ]
    assert answer(QUERIES[2], output, monkeypatch) == expected[:20]
    assert expected

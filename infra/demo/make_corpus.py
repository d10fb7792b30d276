"""Make the sample corpus of `make demo` from three sets of raw documents.

    python infra/demo/make_corpus.py --data DIR

DIR contains `raw_digitalgov`, `raw_us_presidents` and `raw_xquad_wikipedia`, each with a `documents.jsonl`
of {"id", "text", "source"}. Their origin is described in README.md in the same folder as this script. The selection of
documents is always the same.
"""

import argparse
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).parent
SCHEMA = pa.schema([("id", pa.string()), ("text", pa.string()), ("source", pa.string())])

WEB_PAGES = 36
WEB_CHARACTERS = range(1000, 2500)
#: Number of articles per language; the same index is the same article in every language.
ARTICLES = {"en": 16, "de": 2, "es": 2, "zh": 2, "ar": 2}
SPEECHES = ("inaugural/1793-Washington", "inaugural/1865-Lincoln", "inaugural/1945-Roosevelt")

Document = dict[str, str]


def evenly(documents: list[Document], count: int) -> list[Document]:
    """Return `count` documents, in order and evenly spaced.

    Args:
        documents: the documents.
        count: number of documents to return.

    >>> evenly([{"id": c} for c in "abcdef"], 3)
    [{'id': 'a'}, {'id': 'c'}, {'id': 'e'}]
    """
    return [documents[number * len(documents) // count] for number in range(count)]


def web_pages(documents: list[Document]) -> list[Document]:
    """Select short news pages with enough text and without e-mail addresses.

    Args:
        documents: documents of `raw_digitalgov`.
    """
    news = [
        d
        for d in documents
        if "/content/news/" in d["id"] and len(d["text"]) in WEB_CHARACTERS and "@" not in d["text"]
    ]
    return evenly(sorted(news, key=lambda d: d["id"]), WEB_PAGES)


def articles(documents: list[Document]) -> list[Document]:
    """Select Wikipedia articles, most of them in English.

    Args:
        documents: documents of `raw_xquad_wikipedia`.
    """
    chosen = []
    for language, count in ARTICLES.items():
        own = [d for d in documents if d["id"].startswith(f"xquad-{language}-")]
        chosen += evenly(sorted(own, key=lambda d: d["id"]), count)
    return chosen


def speeches(documents: list[Document]) -> list[Document]:
    """Select short inaugural addresses.

    Args:
        documents: documents of `raw_us_presidents`.
    """
    return [d for d in documents if d["id"] in SPEECHES]


def main() -> None:
    """Read the three sets and write the three files of the corpus."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the three sets")
    data = parser.parse_args().data

    def read(name: str) -> list[Document]:
        with open(data / name / "documents.jsonl", encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]

    for name, chosen in (
        ("web-pages", web_pages(read("raw_digitalgov"))),
        ("wikipedia", articles(read("raw_xquad_wikipedia"))),
    ):
        table = pa.Table.from_pylist(chosen, schema=SCHEMA)
        pq.write_table(table, HERE / f"{name}.parquet", compression="zstd")
    with open(HERE / "speeches.jsonl", "w", encoding="utf-8", newline="\n") as file:
        for document in speeches(read("raw_us_presidents")):
            file.write(json.dumps(document, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()

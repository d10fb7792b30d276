"""Queries tagged documents with DuckDB, which reads the folders of an output as tables.

Prints the entities that most documents mention, the documents with the most entities for their length, and pairs of
entities that share a sentence. The same files open in polars, pandas, Spark or Trino.

    python examples/query_with_duckdb.py [OUTPUT]
"""

import subprocess
import sys

import duckdb

OUTPUT = sys.argv[1] if len(sys.argv) > 1 else "out/examples"
COMMAND = [sys.executable, "-m", "pipelines.cli", "tag"]  # `spanmarker tag` of this interpreter
COMMAND += ["--input", "infra/demo/wikipedia.parquet", "--input", "infra/demo/speeches.jsonl"]
COMMAND += ["--output", OUTPUT, "--limit", "7", "--quiet"]

#: The title of each query, and the query.
QUERIES = {
    "Most frequent entities": """
        SELECT text, label, count(*) AS entities, count(DISTINCT document_id) AS documents,
               round(avg(score), 2) AS mean_score
        FROM annotations GROUP BY text, label ORDER BY entities DESC, text LIMIT 5
    """,
    "Entities per 1,000 words": """
        SELECT document_id, n_words, n_entities, round(1000 * n_entities / n_words) AS per_1000_words
        FROM documents WHERE status = 'tagged' ORDER BY per_1000_words DESC, document_id LIMIT 5
    """,
    "Entities in the same sentence": """
        SELECT one.text AS one, other.text AS other, count(DISTINCT (source, source_row, sentence_id)) AS sentences
        FROM annotations AS one JOIN annotations AS other USING (source, source_row, sentence_id)
        WHERE one.text < other.text GROUP BY ALL ORDER BY sentences DESC, one, other LIMIT 5
    """,
}


def main() -> None:
    """Tag the documents, unless that is done, and run the queries."""
    subprocess.run(COMMAND, check=True)
    with duckdb.connect() as database:
        for table in ("annotations", "documents"):
            database.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{OUTPUT}/{table}/*.parquet')")
        for title, query in QUERIES.items():
            print(title)
            database.sql(query).show()


if __name__ == "__main__":
    main()

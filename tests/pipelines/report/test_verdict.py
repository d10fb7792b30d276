"""A run in a sentence, and what a reader does next."""

import shlex

import duckdb
import pytest

from pipelines.report.findings import evaluation_findings
from pipelines.report.verdict import browse_command, query, verdict
from tests.support.browsed_output import add_shard, annotation, begin

FINE = {"sources": 4, "without_words": 0, "too_few": 0, "too_many": 0, "no_band": None}


def values(counts, density=None, left=0, found=()):
    return {
        "this_run": {"shards_left": left},
        "output": {"counts": counts, "density": density, "found": None if found is None else {}},
    }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (values({"tagged": 63}, FINE), "63 documents tagged, nothing rejected; 4 sources look as expected"),
        (
            values({"tagged": 1}, FINE | {"sources": 1}),
            "1 document tagged, nothing rejected; 1 source looks as expected",
        ),
        (
            values({"tagged": 1200, "empty": 3, "rejected": 2, "unreadable": 1}, FINE | {"too_few": 1}),
            "1,200 documents tagged, 3 empty, 3 rejected; 1 of 4 sources has an unusual density",
        ),
        (values({"tagged": 5}, FINE | {"no_band": "why"}), "5 documents tagged, nothing rejected"),
        (values({"tagged": 5}, None, left=2), "5 documents tagged, nothing rejected; 2 shards left to do"),
    ],
)
def test_the_outcome_in_a_sentence(given, expected):
    assert verdict(given) == expected


def test_the_query_runs_in_duckdb(tmp_path):
    output = tmp_path / "it's here"
    begin(output)
    add_shard(output, "a", [annotation("d", 0, 1, text) for text in ("Ann", "Ann", "Bob")])
    rows = duckdb.sql("\n".join(query(str(output)))).fetchall()
    assert [row[:3] for row in rows] == [("person", "Ann", 2), ("person", "Bob", 1)]


def test_the_command_names_the_inputs_once_and_quotes_them():
    job = {"output": "my out", "input": ["a b/*.jsonl", "a b/x/*.parquet", "s3://lake/in/2024-*/*"]}
    assert shlex.split(browse_command(job)) == [
        *("spanmarker", "browse", "my out", "--sources", "a b", "--sources", "a b/x", "--sources", "s3://lake/in")
    ]


def evaluated(precision=0.76, score=0.97, predictions=100, **more):
    last = {"from": 0.9, "to": 1.0, "predictions": predictions, "mean_score": score, "precision": precision}
    empty = {"per_label": {}, "errors": {"missed": {}, "false": {}}, "confusion": {"labels": [None], "counts": [[0]]}}
    micro = {"precision": 0.7, "recall": 0.7, "predicted": 100}
    return {"calibration": {"bins": [last]}, "micro": micro, **empty, **more}


@pytest.mark.parametrize(
    ("precision", "expected"), [(0.76, "overconfident"), (0.96, "as probabilities"), (1.0, "as probabilities")]
)
def test_scores_are_judged_in_words(precision, expected):
    (line,) = evaluation_findings(evaluated(precision))
    assert expected in line
    assert f"{100 * precision:.0f}\xa0%" in line


def test_few_predictions_are_not_judged():
    assert evaluation_findings(evaluated(predictions=19)) == []


def test_the_weakest_labels_and_the_most_frequent_errors_are_named():
    labels = {f"L{n}": {"support": 20 + n, "f1": n / 10} for n in range(8)} | {"rare": {"support": 3, "f1": 0.0}}
    errors = {"missed": {"missed": 30, "type": 5}, "false": {"spurious": 20, "type": 5}}
    confusion = {"labels": ["A", "B", None], "counts": [[9, 4, 1], [2, 8, 0], [3, 3, 0]]}
    found = evaluation_findings(
        evaluated(
            predictions=0,
            per_label=labels,
            errors=errors,
            confusion=confusion,
            micro={"precision": 0.9, "recall": 0.5, "predicted": 100},
        )
    )
    text = "\n".join(found)
    assert "lower threshold" in text
    assert "L0 (0 %), L1 (10 %), L2 (20 %)" in text.replace("\xa0", " ")
    assert "rare" not in text
    assert "50 % of the errors are entities of which" in text.replace("\xa0", " ")
    assert "A is labelled B, 4 times" in text

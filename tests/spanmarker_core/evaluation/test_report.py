import json

from spanmarker_core.evaluation.report import to_json, to_markdown
from spanmarker_core.evaluation.scores.metrics import CONVENTIONS, SpanScorer
from spanmarker_core.text.tag_schemes import Span

FACTS = {
    "model digest": "sha256:ab",
    "data": "a|b.jsonl",
    "decoder": "flat.v1",
    "threshold": None,
    "sentences/s": 31.5,
}


def result():
    scorer = SpanScorer(entity_max_length=2)
    scorer.add([Span(0, 2, "PER"), Span(3, 4, "LOC")], [Span(0, 2, "PER"), Span(3, 4, "x|y")])
    scorer.add([Span(0, 3, "LOC"), Span(1, 2, "LOC"), Span(1, 3, "LOC")], [])
    return scorer.result()


def test_page():
    assert (
        to_markdown(result(), FACTS)
        == f"""\
# Evaluation

**F1 28.57** (micro) over 5 entities in 2 sentences.

| | precision % | recall % | recall ceiling % | F1 % | gold | predicted | correct |
|:--|--:|--:|--:|--:|--:|--:|--:|
| **micro** | 50.00 | 20.00 | 80.00 | 28.57 | 5 | 2 | 1 |
| **macro** | 33.33 | 33.33 | 58.33 | 33.33 | 5 | 2 | 1 |
| LOC | 0.00 | 0.00 | 75.00 | 0.00 | 4 | 0 | 0 |
| PER | 100.00 | 100.00 | 100.00 | 100.00 | 1 | 1 | 1 |
| x\\|y | 0.00 | 0.00 | 0.00 | 0.00 | 0 | 1 | 0 |

Gold entities that exceed entity_max_length or have a label that the model lacks, and count as missed: 1.

Gold entities overlap: without overlaps in the output, recall is at most 60.00 %.

{CONVENTIONS}

| | |
|:--|:--|
| model digest | sha256:ab |
| data | a\\|b.jsonl |
| decoder | flat.v1 |
| threshold | null |
| sentences/s | 31.5 |
"""
    )


def test_a_label_can_not_break_the_table():
    scorer = SpanScorer()
    scorer.add([Span(0, 1, "a\n|b* <i>`_")], [])
    rows = [line for line in to_markdown(scorer.result(), {}).splitlines() if line.startswith("| a")]
    assert rows == [r"| a \|b\* \<i\>\`\_ | 0.00 | 0.00 | 100.00 | 0.00 | 1 | 0 | 0 |"]


def test_a_label_shows_as_it_is_written():
    """GitHub reads `&lt;` as <, `~~` as struck out and `$` as a formula; a turned direction turns what follows."""
    scorer = SpanScorer()
    scorer.add([Span(0, 1, "&lt; ~~s~~ $x$ \u202ea\u200db\x00")], [])
    assert r"| \&lt; \~\~s\~\~ \$x\$ U+202Ea" + "\u200dbU+0000 |" in to_markdown(scorer.result(), {})


def test_json():
    stored = json.loads(json.dumps(to_json(result(), FACTS | {"label": "人名"}), ensure_ascii=False))
    assert stored["facts"]["label"] == "人名"
    assert stored["format_version"] == 2
    assert stored["facts"]["threshold"] is None
    assert stored["micro"]["recall"] == 0.2
    assert stored["per_label"]["PER"]["support"] == 1
    assert stored["flat_ceiling"] == 0.6
    names = "conventions f1_interval facts flat_ceiling format_version macro micro per_label sentences"
    assert sorted(stored) == names.split()

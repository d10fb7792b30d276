"""Evaluation reports, as JSON values and as a Markdown page for a pull request."""

import json
from collections.abc import Mapping
from dataclasses import asdict

from spanmarker_core.evaluation.scores.metrics import CONVENTIONS, EvaluationResult, Scores
from spanmarker_core.text.markdown import cell, percent

#: Version 2 added the keys of `Analysis.to_json`; those of version 1 keep their meaning.
FORMAT_VERSION = 2


def to_json(
    result: EvaluationResult, facts: Mapping[str, object], details: Mapping[str, object] | None = None
) -> dict[str, object]:
    """Return the report as JSON values; scores are from 0 to 1, not rounded.

    Args:
        result: the scores.
        facts: the data and settings of the evaluation (model digest, data, decoder, threshold, sentences/s, ...), as
            JSON values. Each becomes a key under `facts` and a line of the page.
        details: JSON values from `Analysis.to_json`; their keys are added at the top level.
    """
    return {
        "format_version": FORMAT_VERSION,
        "conventions": CONVENTIONS,
        "facts": dict(facts),
        "sentences": result.sentences,
        "flat_ceiling": result.flat_ceiling,
        "f1_interval": result.f1_interval,
        "micro": asdict(result.micro),
        "macro": asdict(result.macro),
        "per_label": {label: asdict(scores) for label, scores in result.per_label.items()},
        **(details or {}),
    }


def to_markdown(result: EvaluationResult, facts: Mapping[str, object]) -> str:
    """Return the report as a Markdown page; scores are in percent, labels ordered by support.

    Args:
        result: the scores.
        facts: the data and settings of the evaluation, as in `to_json`.
    """
    by_support = sorted(result.per_label.items(), key=lambda item: (-item[1].support, item[0]))
    within = (
        f"; 95 % interval {' to '.join(map(percent, result.f1_interval))}, bootstrap over documents"
        if result.f1_interval
        else ""
    )
    lines = [
        "# Evaluation",
        "",
        f"**F1 {percent(result.micro.f1)}** (micro{within}) over {result.micro.support:,} entities "
        f"in {result.sentences:,} sentences.",
        "",
        "| | precision % | recall % | recall ceiling % | F1 % | gold | predicted | correct |",
        "|:--|--:|--:|--:|--:|--:|--:|--:|",
        _row("**micro**", result.micro),
        _row("**macro**", result.macro),
        *(_row(cell(label), scores) for label, scores in by_support),
        "",
    ]
    unreachable = result.micro.support - result.micro.reachable
    if unreachable:
        lines += [
            f"Gold entities that exceed entity_max_length or have a label that the model lacks, and count as missed: "
            f"{unreachable:,}.",
            "",
        ]
    if result.flat_ceiling < result.micro.ceiling:
        ceiling = percent(result.flat_ceiling)
        lines += [
            f"Gold entities overlap: without overlaps in the output, recall is at most {ceiling} %.",
            "",
        ]
    lines += [CONVENTIONS, "", "| | |", "|:--|:--|"]
    lines += [f"| {cell(name)} | {cell(_fact(value))} |" for name, value in facts.items()]
    return "\n".join(lines) + "\n"


def f1_in_words(result: EvaluationResult) -> str:
    """Return micro F1 in percent, with its interval if it is known.

    Args:
        result: the scores.

    >>> from spanmarker_core.evaluation.scores.metrics import SpanScorer
    >>> f1_in_words(SpanScorer().result())
    'F1 0.0%'
    """
    interval = ""
    if result.f1_interval is not None:
        low, high = result.f1_interval
        interval = f" (95% interval {low:.1%} to {high:.1%})"
    return f"F1 {result.micro.f1:.1%}{interval}"


def _row(name: str, scores: Scores) -> str:
    rates = (scores.precision, scores.recall, scores.ceiling, scores.f1)
    counts = (scores.support, scores.predicted, scores.correct)
    cells = [name, *map(percent, rates), *(f"{count:,}" for count in counts)]
    return f"| {' | '.join(cells)} |"


def _fact(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

"""Scores of an evaluation on the console. What matters most comes last, where it stays on the screen."""

from collections.abc import Callable, Mapping

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from spanmarker_core.evaluation.report import f1_in_words
from spanmarker_core.evaluation.scores.metrics import EvaluationResult, Scores
from spanmarker_core.text.invisible import INVISIBLE

#: Blanks between columns; least width of the labels, if they need it; columns that are left out for it, first to last.
_GAP, _LABEL_WIDTH, _NARROW = 2, 20, ("predicted", "gold", "ceiling", "precision", "recall")


def print_scores(console: Console, result: EvaluationResult, facts: Mapping[str, object]) -> None:
    """Print the settings, the scores of each label, and F1 as the last line. A label is never cut.

    Args:
        console: the console.
        result: the scores.
        facts: the data and settings of the evaluation.
    """
    settings = Table("setting", Column(overflow="fold"), box=None, show_header=False, pad_edge=False)
    for name, value in facts.items():
        settings.add_row(Text(name.replace("_", " ")), _visible(str(value)))
    console.print(settings)
    console.print()
    console.print(_table(result, console.width))
    console.print()
    for note in _notes(result):
        _say(console, note)
    micro = result.micro
    _say(
        console,
        f"precision {micro.precision:.1%}, recall {micro.recall:.1%}; gold entities {micro.support:,}, "
        f"sentences {result.sentences:,}",
    )
    _say(console, f1_in_words(result))


def _table(result: EvaluationResult, width: int) -> Table:
    columns: dict[str, Callable[[Scores], str]] = {
        "precision": lambda scores: _percent(scores.precision),
        "recall": lambda scores: _percent(scores.recall),
        "ceiling": lambda scores: _percent(scores.ceiling),
        "F1": lambda scores: _percent(scores.f1),
        "gold": lambda scores: f"{scores.support:,}",
        "predicted": lambda scores: f"{scores.predicted:,}",
    }
    if result.micro.reachable == result.micro.support:
        del columns["ceiling"]
    rows = [
        *((_visible(label), scores) for label, scores in sorted(result.per_label.items(), key=_by_support)),
        (Text("mean of the labels (macro)", "bold"), result.macro),
        (Text("all entities (micro)", "bold"), result.micro),
    ]
    # Of all columns, rich narrows that of the labels first.
    least = min(_LABEL_WIDTH, max(len(name) for name, _ in rows))
    for head in _NARROW:
        taken = sum(_GAP + max(len(head), *(len(show(scores)) for _, scores in rows)) for head, show in columns.items())
        if least + taken > width:
            columns.pop(head, None)
    numbers = (Column(head, justify="right", no_wrap=True) for head in columns)
    table = Table(Column("in %", overflow="fold"), *numbers, box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for name, scores in rows:
        table.add_row(name, *(show(scores) for show in columns.values()))
    return table


def _by_support(item: tuple[str, Scores]) -> tuple[int, str]:
    return -item[1].support, item[0]


def _notes(result: EvaluationResult) -> list[str]:
    notes = []
    if unreachable := result.micro.support - result.micro.reachable:
        notes.append(
            f"{unreachable:,} gold entities are longer than entity_max_length or have a label that the model lacks. "
            "They count as missed; the ceiling is the best possible recall."
        )
    if result.flat_ceiling < result.micro.ceiling:
        notes.append(
            f"Gold entities overlap: without overlaps in the output, recall is at most {result.flat_ceiling:.1%}."
        )
    return notes


def _visible(text: str) -> Text:
    return Text(INVISIBLE.sub("\ufffd", " ".join(text.split())))


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _say(console: Console, line: str) -> None:
    console.print(line, markup=False, highlight=False)

"""Cross-checks in the conventions of other tools: the four matching schemas of SemEval-2013, and strict IOB2 tags.

Sources: Segura-Bedmar et al., SemEval-2013 task 9, section 4 (strict, exact boundary, partial boundary and type
matching; COR, INC, PAR, MIS, SPU; partial matches count half), after Chinchor & Sundheim, MUC-5 evaluation metrics,
1993. The tests compare this module with the packages nervaluate and seqeval.
"""

from collections import Counter
from collections.abc import Iterable

from spanmarker_core.evaluation.scores.overlaps import outermost, overlapping
from spanmarker_core.text.tag_schemes import Span

SCHEMAS = ("strict", "exact", "partial", "type")

SEMEVAL_CONVENTIONS = (
    "SemEval-2013 task 9.1, as in nervaluate: strict requires the same words and label, exact the same words, partial "
    "gives half a point for shared words with any label, type requires the label and a shared word. Precision and "
    "recall are (COR + 0.5 PAR) divided by the predictions and by the gold entities. Each gold entity has at most one "
    "partner: first equal ones, then those with the same words, then as many pairs with a shared word as possible, "
    "and among these choices one with the most equal labels. So the order of entities does not matter, and entities "
    "that nest or overlap are each matched once. Where several overlap one entity, nervaluate takes the first and may "
    "differ."
)

STRICT_CONVENTIONS = (
    "seqeval strict (IOB2): micro and macro averages over the entities that tags can represent. Tags cannot overlap: "
    "of overlapping entities, gold and predicted, the longest stays (then the first, then by label), and the others "
    "count on neither side. With nested gold entities this is therefore another task: a correctly found inner entity "
    "counts as wrong."
)


def align(gold: Iterable[Span], predicted: Iterable[Span]) -> list[tuple[Span | None, Span | None]]:
    """Pair the gold entities of a sentence with its predictions, each at most once; None marks a missing partner.

    Args:
        gold: gold entities of the sentence.
        predicted: predicted entities of the sentence.

    >>> align([Span(0, 2, "PER"), Span(4, 5, "LOC")], [Span(1, 2, "PER"), Span(7, 8, "LOC")])[0]
    (Span(start=0, end=2, label='PER'), Span(start=1, end=2, label='PER'))
    """
    wanted, found = set(gold), set(predicted)
    pairs: list[tuple[Span | None, Span | None]] = [(span, span) for span in sorted(wanted & found)]
    missed, false = sorted(wanted - found), sorted(found - wanted)
    at: dict[tuple[int, int], tuple[list[Span], list[Span]]] = {}
    for side, spans in enumerate((missed, false)):
        for span in spans:
            at.setdefault((span.start, span.end), ([], []))[side].append(span)
    same_words = [pair for both in at.values() for pair in zip(*both, strict=False)]
    paired = {span for pair in same_words for span in pair}
    pairs += same_words
    missed = [span for span in missed if span not in paired]
    false = [span for span in false if span not in paired]
    partner = _most_pairs(missed, false)
    pairs += [(span, partner.get(span)) for span in missed]
    taken = set(partner.values())
    return pairs + [(None, span) for span in false if span not in taken]


def _most_pairs(gold: list[Span], predicted: list[Span]) -> dict[Span, Span]:
    """Return the most pairs of spans that share a word; of all such choices, one with the most equal labels."""
    near = list(overlapping(gold, predicted))
    if not near:
        return {}
    import networkx as nx  # takes most of a second

    # Numbers as nodes: the order of sets of spans differs between processes, as hashes of labels do.
    gold_node = {span: node for node, span in enumerate(gold)}
    node_of = {span: node for node, span in enumerate(predicted, len(gold))}
    graph = nx.Graph()
    for wanted, found in near:
        graph.add_edge(gold_node[wanted], node_of[found], weight=int(wanted.label == found.label))
    pairs = map(sorted, nx.max_weight_matching(graph, maxcardinality=True))
    return {gold[of_gold]: predicted[of_found - len(gold)] for of_gold, of_found in pairs}


def outcomes(gold: Span | None, predicted: Span | None) -> tuple[str, str, str, str]:
    """Return the outcome of a pair under each of `SCHEMAS`.

    Args:
        gold: the gold entity; None for a spurious prediction.
        predicted: the prediction; None for a missed entity.

    >>> outcomes(Span(0, 2, "PER"), Span(1, 2, "PER"))
    ('INC', 'INC', 'PAR', 'COR')
    """
    if gold is None:
        return ("SPU",) * 4
    if predicted is None:
        return ("MIS",) * 4
    words = (gold.start, gold.end) == (predicted.start, predicted.end)
    label = gold.label == predicted.label
    return (
        "COR" if words and label else "INC",
        "COR" if words else "INC",
        "COR" if words else "PAR",
        "COR" if label else "INC",
    )


class SemEval:
    """Accumulator of outcomes under the four matching schemas.

    >>> counter = SemEval()
    >>> counter.add([Span(0, 2, "PER"), Span(3, 4, "LOC")], [Span(1, 2, "PER"), Span(3, 4, "LOC")])
    >>> {schema: scores["f1"] for schema, scores in counter.to_json().items()}
    {'strict': 0.5, 'exact': 0.5, 'partial': 0.75, 'type': 1.0}
    """

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {schema: Counter() for schema in SCHEMAS}

    def add(self, gold: Iterable[Span], predicted: Iterable[Span]) -> None:
        """Add one sentence.

        Args:
            gold: gold entities of the sentence.
            predicted: predicted entities of the sentence.
        """
        for pair in align(gold, predicted):
            for schema, outcome in zip(SCHEMAS, outcomes(*pair), strict=True):
                self._counts[schema][outcome] += 1

    def to_json(self) -> dict[str, dict[str, float]]:
        """Return counts and scores by schema."""
        made: dict[str, dict[str, float]] = {}
        for schema, counts in self._counts.items():
            possible = counts["COR"] + counts["INC"] + counts["PAR"] + counts["MIS"]
            actual = counts["COR"] + counts["INC"] + counts["PAR"] + counts["SPU"]
            credit = counts["COR"] + counts["PAR"] / 2
            made[schema] = {
                "correct": counts["COR"],
                "incorrect": counts["INC"],
                "partial": counts["PAR"],
                "missed": counts["MIS"],
                "spurious": counts["SPU"],
                "possible": possible,
                "actual": actual,
                "precision": credit / actual if actual else 0.0,
                "recall": credit / possible if possible else 0.0,
                "f1": 2 * credit / (possible + actual) if possible + actual else 0.0,
            }
        return made


def as_tags(gold: Iterable[Span], predicted: Iterable[Span]) -> tuple[list[Span], list[Span]]:
    """Return the gold entities and the predictions that tags can represent: a flat subset of each.

    Args:
        gold: gold entities of the sentence.
        predicted: predicted entities of the sentence.

    >>> as_tags([Span(0, 3, "ORG"), Span(1, 2, "LOC")], [Span(1, 2, "LOC")])
    ([Span(start=0, end=3, label='ORG')], [Span(start=1, end=2, label='LOC')])
    """
    return outermost(gold), outermost(predicted)

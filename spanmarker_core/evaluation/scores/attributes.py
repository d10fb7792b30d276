"""F1 by buckets of BL-NER's attributes and by whether training has the surface form, and the share of unknown words.

Source: Ji et al., Bundling Sequence and Span Models for NER, section 4.3.1, equations 23a to 23d and Table 5 (after
Fu et al., Interpretable Multi-dataset Evaluation for NER, EMNLP 2020); equation 21 for unknown words.

An attribute is a function of an entity and its sentence, the same for gold and predictions. A correct prediction is
therefore in the bucket of its gold entity, and the buckets of an attribute add up to the total.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from spanmarker_core.data.records import Sentence
from spanmarker_core.evaluation.scores.overlaps import surface

BUCKETS = ("XS", "S", "L", "XL")
SEEN = ("seen", "other_label", "unseen")


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute and its four buckets.

    Attributes:
        words: description of the attribute.
        uppers: largest values of XS, S and L; XL has all larger values.
        whole: whether the values are whole numbers.
        trained: whether the attribute requires the training data.
    """

    words: str
    uppers: tuple[float, float, float]
    whole: bool
    trained: bool = False

    def bucket(self, value: float) -> int:
        """Return the index of the bucket of a value.

        Args:
            value: value of the attribute.

        >>> [ATTRIBUTES["eLen"].bucket(length) for length in (1, 2, 3, 4, 5, 60)]
        [0, 1, 2, 2, 3, 3]
        """
        return bisect_left(self.uppers, value)

    def intervals(self) -> list[str]:
        """Return the intervals of the buckets as text.

        >>> ATTRIBUTES["eLen"].intervals(), ATTRIBUTES["eDen"].intervals()
        (['1', '2', '3–4', '5+'], ['0–0.01', '>0.01–0.025', '>0.025–0.05', '>0.05'])
        """
        if self.whole:
            lows = [1, *(int(upper) + 1 for upper in self.uppers)]
            closed = [str(low) if low == high - 1 else f"{low}–{high - 1}" for low, high in pairwise(lows)]
            return [*closed, f"{lows[-1]}+"]
        above = [f">{low:g}–{high:g}" for low, high in pairwise(self.uppers)]
        lowest = f"0–{self.uppers[0]:g}" if self.uppers[0] else "0"
        return [lowest, *above, f">{self.uppers[-1]:g}"]


#: Table 5, except for oDen, for which the paper gives no buckets. eDen has no upper bound here, since a sentence with
#: nested entities can have more entities than words.
ATTRIBUTES = {
    "eLen": Attribute("words of the entity", (1, 2, 4), whole=True),
    "tLen": Attribute("words of the sentence", (7, 16, 31), whole=True),
    "eCon": Attribute("share of training entities with this form that have this label", (0.1, 0.5, 0.9), False, True),
    "eDen": Attribute("gold entities per word of the sentence", (0.01, 0.025, 0.05), whole=False),
    "oDen": Attribute("share of the sentence's words that are not in the training data", (0.0, 0.1, 0.25), False, True),
}

CONVENTIONS = (
    "As in BL-NER, equations 23a to 23d, with the buckets of its Table 5. eLen: words of the entity. tLen: words of "
    "its sentence. eCon: share of the training entities with the same surface form that have the same label; 0 for a "
    "form that is not in the training data (the printed equation 23c omits the surface form, but the text below it "
    "and its source include it). eDen: gold entities of the sentence divided by its words; can exceed 1 where "
    "entities nest. oDen: share of the sentence's words that are not in the training data (equation 21, per sentence; "
    "the buckets are ours). Forms and words are compared case-sensitively. Each prediction is in the bucket of its "
    "own words, label and sentence."
)

UNKNOWN_CONVENTIONS = "Share of the words that are not in the training data, case-sensitive (BL-NER, equation 21)."

SEEN_CONVENTIONS = (
    "Seen: the training data contain an entity of the same form and label; other_label: only entities of the same "
    "form with other labels; unseen: none of this form. Predictions are grouped by their own form and label."
)


@dataclass
class TrainingForms:
    """Surface forms and words of the training data; memory grows with the number of distinct ones.

    Attributes:
        labels: number of entities by surface form and label.
        words: all distinct words.
        sentences: number of sentences.

    >>> from spanmarker_core.text.tag_schemes import Span
    >>> forms = TrainingForms.of([Sentence("d", 0, ["It", "rained"], [Span(1, 2, "Weather")])])
    >>> forms.consistency("rained", "Weather"), forms.seen("rained", "Date"), forms.unknown(["It", "is"])
    (1.0, 'other_label', 1)
    """

    labels: dict[str, Counter[str]] = field(default_factory=dict)
    words: set[str] = field(default_factory=set)
    sentences: int = 0

    @classmethod
    def of(cls, sentences: Iterable[Sentence]) -> "TrainingForms":
        """Collect forms and words from a stream of sentences.

        Args:
            sentences: training sentences.
        """
        forms = cls()
        for sentence in sentences:
            forms.sentences += 1
            forms.words.update(sentence.words)
            for span in set(sentence.entities):
                forms.labels.setdefault(surface(sentence.words, span), Counter())[span.label] += 1
        return forms

    def consistency(self, form: str, label: str) -> float:
        """Return eCon: the share of training entities of a form that have a label; 0 for an unseen form.

        Args:
            form: surface form of an entity.
            label: label of the entity.
        """
        counts = self.labels.get(form)
        return counts[label] / counts.total() if counts else 0.0

    def seen(self, form: str, label: str) -> str:
        """Return the member of `SEEN` that applies to an entity.

        Args:
            form: surface form of the entity.
            label: label of the entity.
        """
        counts = self.labels.get(form)
        if not counts:
            return "unseen"
        return "seen" if counts[label] else "other_label"

    def unknown(self, words: Sequence[str]) -> int:
        """Return the number of words that are not in the training data.

        Args:
            words: words of a sentence.
        """
        return sum(word not in self.words for word in words)


class Groups:
    """Counts of gold, predicted and correct entities by group.

    Args:
        names: names of the groups.

    >>> groups = Groups(["short", "long"])
    >>> groups.add("short", [2, 1, 1])
    >>> groups.to_json()["short"]["f1"]
    0.6666666666666666
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._counts = {name: [0, 0, 0] for name in names}

    def add(self, name: str, counts: Sequence[int]) -> None:
        """Add counts to a group.

        Args:
            name: name of the group.
            counts: numbers of gold, predicted and correct entities.
        """
        for place, count in enumerate(counts):
            self._counts[name][place] += count

    def to_json(self) -> dict[str, dict[str, float | None]]:
        """Return counts and scores by group; scores with a denominator of 0 are None."""
        return {
            name: {
                "support": gold,
                "predicted": predicted,
                "correct": correct,
                "precision": correct / predicted if predicted else None,
                "recall": correct / gold if gold else None,
                "f1": 2 * correct / (gold + predicted) if gold + predicted else None,
            }
            for name, (gold, predicted, correct) in self._counts.items()
        }

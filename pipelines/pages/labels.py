"""Colours of labels. Labels with a common first part, such as location-GPE and location-park, share one."""

import re
from collections import Counter
from collections.abc import Mapping

from pipelines.pages.text import TONES

_FIRST = re.compile(r"[^-/.:_]+")


class LabelTones:
    """Gives each label its colour: the most frequent groups of labels have one each, and the others are grey.

    Labels are grouped by their first part if that makes groups, and each is a group of its own otherwise.

    Args:
        counts: number of entities by label.

    Attributes:
        groups: number of entities by group, in descending order.

    >>> tones = LabelTones({"person-actor": 5, "person-other": 2, "location-GPE": 6})
    >>> [tones.of(label) for label in ("person-actor", "person-other", "location-GPE", "new")], tones.legend()
    ([0, 0, 1, 8], [('person', 7, 0), ('location', 6, 1)])
    """

    def __init__(self, counts: Mapping[str, int]) -> None:
        first = {label: found[0] if (found := _FIRST.match(label)) else label for label in counts}
        self._grouped = len(set(first.values())) < len(first)
        totals = Counter[str]()
        for label, count in counts.items():
            totals[first[label] if self._grouped else label] += count
        self.groups = dict(sorted(totals.items(), key=lambda item: (-item[1], item[0])))
        tones = {group: min(place, TONES) for place, group in enumerate(self.groups)}
        self._tones = {label: tones[first[label] if self._grouped else label] for label in counts}
        self._of_group = tones

    def of(self, label: str) -> int:
        """Return the colour of a label, 0 to `TONES`; the last, grey, is that of labels without a colour.

        Args:
            label: the label.
        """
        return self._tones.get(label, TONES)

    def legend(self) -> list[tuple[str, int, int]]:
        """Return (group, number of entities, colour) of the groups with a colour, and of all others together."""
        shown = [(group, count, self._of_group[group]) for group, count in self.groups.items()]
        others = sum(count for _, count, tone in shown if tone == TONES)
        coloured = [each for each in shown if each[2] < TONES]
        return [*coloured, ("other labels", others, TONES)] if others else coloured

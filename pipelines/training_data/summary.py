"""Summary of annotated data, added up over finished shards."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from schemas.annotated import CODES, WRONG
from schemas.manifest import Entry
from spanmarker_core.data.summary import DataSummary


@dataclass(slots=True)
class AlignmentSummary:
    """Counts of annotated data and their alignment.

    Attributes:
        data: summary of the sentences to learn.
        problems: annotations by code of GOLD_PROBLEMS, without those of rejected documents.
        learned: annotations that are candidate spans of a window.
        documents: documents read, including rejected ones.
        rejected: rejected documents.
        unreadable: sentences, and parts of files, that do not belong to any document.
    """

    data: DataSummary
    problems: Counter[str]
    learned: int = 0
    documents: int = 0
    rejected: int = 0
    unreadable: int = 0

    @classmethod
    def over(cls, entries: Iterable[Entry]) -> "AlignmentSummary":
        """Return the summary of finished shards.

        Args:
            entries: the shards' manifest entries.
        """
        summary = cls(DataSummary(), Counter())
        for entry in entries:
            summary.data.merge(DataSummary.from_json(entry.data))
            summary.problems.update({code: entry.counts[f"gold_{code}"] for code in CODES})
            summary.learned += entry.counts["entities"]
            summary.documents += entry.counts["documents"]
            summary.rejected += entry.counts["rejected"]
            summary.unreadable += entry.counts["unreadable"]
        return summary

    @property
    def annotations(self) -> int:
        """Number of annotations, without duplicates."""
        return self.learned + sum(count for code, count in self.problems.items() if code != "duplicate")

    @property
    def wrong(self) -> int:
        """Number of annotations with ranges that do not match words."""
        return sum(self.problems[code] for code in WRONG)

    @property
    def lost_share(self) -> float:
        """Share of rejected documents or of unreadable sentences, whichever is larger."""
        sentences = self.unreadable + self.data.sentences
        return max(self.rejected / max(self.documents, 1), self.unreadable / max(sentences, 1))

    def to_json(self) -> dict[str, Any]:
        """Return the summary as JSON values."""
        return {
            "documents": self.documents,
            "rejected": self.rejected,
            "unreadable": self.unreadable,
            "annotations": self.annotations,
            "learned": self.learned,
            "problems": {code: self.problems[code] for code in CODES},
            "wrong_share": self.wrong / self.annotations if self.annotations else 0.0,
            "data": self.data.to_json(),
        }

"""What annotated data hold, added up over finished shards."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from schemas.annotated import CODES, WRONG
from schemas.manifest import Entry
from spanmarker_core.data.summary import DataSummary


@dataclass(slots=True)
class AlignmentSummary:
    """What annotated data hold.

    Attributes:
        data: of the sentences as they are to be learned.
        problems: annotations by code of GOLD_PROBLEMS, those of rejected documents aside.
        learned: annotations that are candidate spans of a window.
        documents: all that were read, `rejected` among them.
        unreadable: sentences, and parts of files, that are in no document.
    """

    data: DataSummary
    problems: Counter[str]
    learned: int = 0
    documents: int = 0
    rejected: int = 0
    unreadable: int = 0

    @classmethod
    def over(cls, entries: Iterable[Entry]) -> "AlignmentSummary":
        """Add up finished shards."""
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
        """All annotations, each once."""
        return self.learned + sum(count for code, count in self.problems.items() if code != "duplicate")

    @property
    def wrong(self) -> int:
        """Annotations whose ranges are no words."""
        return sum(self.problems[code] for code in WRONG)

    @property
    def lost_share(self) -> float:
        """Share of the documents that were rejected, or of the sentences, whichever is more."""
        sentences = self.unreadable + self.data.sentences
        return max(self.rejected / max(self.documents, 1), self.unreadable / max(sentences, 1))

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
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

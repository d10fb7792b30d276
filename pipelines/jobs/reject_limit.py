"""`--max-rejects`: how many rejects are too many."""

import re
from dataclasses import dataclass

_FORM = re.compile(r"(\d+)|(\d+(?:\.\d+)?|\.\d+)\s*%")


@dataclass(frozen=True, slots=True)
class MaxRejects:
    """A limit. `number` or `share` is None; `text` is as it was given."""

    text: str
    number: int | None
    share: float | None

    @classmethod
    def parse(cls, text: str) -> "MaxRejects":
        """Read a number, or a share of the documents in percent.

        Raises:
            ValueError: it is neither.

        >>> MaxRejects.parse("1.5%").share, MaxRejects.parse("20").number
        (0.015, 20)
        """
        form = _FORM.fullmatch(text.strip())
        if form is None:
            raise ValueError("neither a number, as in 100, nor a share, as in 1%")
        number, percent = form.groups()
        if percent is not None and float(percent) > 100:
            raise ValueError("a share of more than 100%")
        return cls(text, int(number) if number else None, float(percent) / 100 if percent else None)

    def passed_by(self, rejects: int, documents: int) -> bool:
        """Tell whether so many rejects, among so many documents, are too many."""
        return rejects > (self.number if self.number is not None else (self.share or 0.0) * documents)

"""Value of the option `--max-rejects`."""

import re
from dataclasses import dataclass

_FORM = re.compile(r"(\d+)|(\d+(?:\.\d+)?|\.\d+)\s*%")


@dataclass(frozen=True, slots=True)
class MaxRejects:
    """Maximum number or share of rejected documents.

    Attributes:
        text: the option as given.
        number: maximum number of rejected documents, or None.
        share: maximum share of rejected documents, 0 to 1, or None.
    """

    text: str
    number: int | None
    share: float | None

    @classmethod
    def parse(cls, text: str) -> "MaxRejects":
        """Parse a number, or a share of the documents in percent.

        Args:
            text: value of the option, such as "100" or "1%".

        Raises:
            ValueError: the text is neither a number nor a percentage up to 100%.

        >>> MaxRejects.parse("1.5%").share, MaxRejects.parse("20").number
        (0.015, 20)
        """
        form = _FORM.fullmatch(text.strip())
        if form is None:
            raise ValueError(f"{text!r} is neither a number such as 100 nor a share such as 1%")
        number, percent = form.groups()
        if percent is not None and float(percent) > 100:
            raise ValueError(f"{text!r} is more than 100%")
        return cls(text, int(number) if number else None, float(percent) / 100 if percent else None)

    def passed_by(self, rejects: int, documents: int) -> bool:
        """Return whether the limit is exceeded.

        Args:
            rejects: number of rejected documents.
            documents: number of all documents.
        """
        return rejects > (self.number if self.number is not None else (self.share or 0.0) * documents)

"""Throughput over the time of a run, in words per second, in bounded memory."""

#: Maximum number of intervals that a run is divided into.
PARTS = 60


class Throughput:
    """Histogram of words over time, with intervals of one second that are merged in pairs when there are too many.

    Args:
        parts: maximum number of intervals.

    >>> throughput = Throughput(parts=2)
    >>> throughput.add(0.0, 2.0, 30)
    >>> throughput.add(3.0, 4.0, 30)
    >>> throughput.rates()
    [(0.0, 15.0), (2.0, 15.0)]
    """

    def __init__(self, parts: int = PARTS) -> None:
        self._parts = parts
        self._words = [0.0]
        self._width = 1.0
        self._end = 0.0

    def add(self, start: float, end: float, words: int) -> None:
        """Add words that were tagged at an even rate between two times.

        Args:
            start: seconds since tagging began, 0 or more.
            end: seconds since tagging began, not before `start`.
            words: number of words.
        """
        self._end = max(self._end, end)
        while end > self._width * self._parts:
            self._words.append(0.0)  # partner for an odd last interval
            self._words = [a + b for a, b in zip(self._words[::2], self._words[1::2], strict=False)]
            self._width *= 2
        first, last = int(start / self._width), int(end / self._width)
        if last > first and last * self._width == end:
            last -= 1
        last = min(last, self._parts - 1)
        first = min(first, last)
        self._words += [0.0] * (last + 1 - len(self._words))
        for part in range(first, last + 1):
            inside = min(end, (part + 1) * self._width) - max(start, part * self._width)
            self._words[part] += words * (inside / (end - start) if end > start else 1.0)

    @property
    def words(self) -> float:
        """Return the number of words added."""
        return sum(self._words)

    def rates(self) -> list[tuple[float, float]]:
        """Return the start of each interval in seconds and its words per second; the last interval may be shorter."""
        found: list[tuple[float, float]] = []
        for part, words in enumerate(self._words):
            start = part * self._width
            length = min(self._end, start + self._width) - start
            # A very short last interval gives no reliable rate.
            if length >= self._width / 2 or not found:
                found.append((start, words / max(length, 1e-9) if words else 0.0))
        return found

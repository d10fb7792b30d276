"""Numbers formatted for reading that tables can still sort by value."""

import math

#: Between a number and its unit, which stay on one line.
_GAP = "\N{NO-BREAK SPACE}"


class Figure(str):
    """A formatted number.

    Attributes:
        value: the number, for sorting.
    """

    __slots__ = ("value",)
    value: float

    def __new__(cls, words: str, value: float) -> "Figure":
        """Return a formatted number.

        Args:
            words: the formatted text.
            value: the number.
        """
        figure = super().__new__(cls, words)
        figure.value = value
        return figure


_ABSENT = Figure("–", -math.inf)


def number(value: float | None) -> Figure:
    """Return a count with thousands separators.

    Args:
        value: the count; None gives a dash.

    >>> number(1234567), number(None)
    ('1,234,567', '–')
    """
    return _ABSENT if value is None else Figure(f"{value:,}", value)


def decimal(value: float | None, digits: int = 2) -> Figure:
    """Return a number with a fixed number of decimal places.

    Args:
        value: the number; None gives a dash.
        digits: number of decimal places.

    >>> decimal(1234.5), decimal(0.12345, 3)
    ('1,234.50', '0.123')
    """
    return _ABSENT if value is None else Figure(f"{value:,.{digits}f}", value)


def percent(value: float | None, digits: int = 1) -> Figure:
    r"""Return a share in percent.

    Args:
        value: the share, 0 to 1; None gives a dash.
        digits: number of decimal places.

    >>> percent(0.1234), percent(1.0, 0)
    ('12.3\xa0%', '100\xa0%')
    """
    return _ABSENT if value is None else Figure(f"{100 * value:.{digits}f}{_GAP}%", value)


def seconds(value: float | None) -> Figure:
    r"""Return a duration in suitable units.

    Args:
        value: the duration in seconds; None gives a dash.

    >>> [str(seconds(value)).replace("\xa0", " ") for value in (0.0123, 5.25, 75, 3725, 90061)]
    ['12 ms', '5.2 s', '1 min 15 s', '1 h 2 min', '1 d 1 h']
    """
    if value is None:
        return _ABSENT
    if value < 1:
        return Figure(f"{1000 * value:.0f}{_GAP}ms", value)
    if value < 60:
        return Figure(f"{value:.1f}{_GAP}s", value)
    whole = round(value)
    for unit, name, below, below_name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= unit:
            return Figure(f"{whole // unit:,}{_GAP}{name} {whole % unit // below}{_GAP}{below_name}", value)
    return Figure(f"{whole}{_GAP}s", value)


def size(value: float | None) -> Figure:
    r"""Return a size in suitable decimal units.

    Args:
        value: the size in bytes; None gives a dash.

    >>> [str(size(value)).replace("\xa0", " ") for value in (999, 1500, 2.5e9)]
    ['999 B', '1.5 kB', '2.5 GB']
    """
    if value is None:
        return _ABSENT
    scaled, units = float(value), ["B", "kB", "MB", "GB", "TB"]
    while scaled >= 1000 and len(units) > 1:
        scaled, units = scaled / 1000, units[1:]
    return Figure(f"{scaled:.{0 if units[0] == 'B' else 1}f}{_GAP}{units[0]}", value)


def plain(value: object) -> str:
    """Return a plain JSON value in words, not in the notation of a program.

    Args:
        value: the value.

    >>> plain(None), plain(True), plain({"PER": 0.5}), plain(["a", 2]), plain(0.0)
    ('none', 'yes', 'PER: 0.5', 'a, 2', '0')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {plain(each)}" for name, each in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(plain, value)) or "none"
    if isinstance(value, float):
        return f"{value:g}"
    return "none" if value in (None, "None") else str(value)

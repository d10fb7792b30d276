"""Small drawings for the cells of tables: bars with intervals, intervals on a common axis, and histograms.

They stretch to the width of their cell; lines keep their thickness (`vector-effect` in the style).
"""

from collections.abc import Sequence

from markupsafe import Markup


def bar(share: float, low: float | None = None, high: float | None = None) -> Markup:
    """Return a horizontal bar, with an interval if there is one.

    Args:
        share: length of the bar, 0 to 1.
        low: lower end of the interval; None for no interval.
        high: upper end of the interval.
    """
    width, kind = _place(share, 0.0, 1.0), "bar"
    whisker = ""
    if low is not None and high is not None:
        ends = [_place(value, 0.0, 1.0) for value in (low, high)]
        kind = "bar rough"  # paler, so that the interval is visible on it
        whisker = f'<path class="whisker" d="M{ends[0]} 4H{ends[1]}M{ends[0]} 1V7M{ends[1]} 1V7"/>'
    return _svg(
        "meter",
        f'<rect class="rest" width="100" height="8"/><rect class="{kind}" width="{width}" height="8"/>{whisker}',
    )


def interval(value: float, low: float | None, high: float | None, axis: tuple[float, float]) -> Markup:
    """Return a value with its interval on an axis that the rows of a table share, with a line at 0.

    Args:
        value: the value.
        low: lower end of the interval; None for no interval.
        high: upper end of the interval.
        axis: lowest and highest value of the axis; values beyond are drawn at its ends.
    """
    zero, at = _place(0.0, *axis), _place(value, *axis)
    whisker = ""
    if low is not None and high is not None:
        ends = [_place(end, *axis) for end in (low, high)]
        whisker = f'<path class="whisker" d="M{ends[0]} 4H{ends[1]}"/>'
    clear = low is not None and high is not None and (low > 0 or high < 0)
    side = ("up" if value > 0 else "down") if clear else "same"
    drawn = f'<path class="zero" d="M{zero} 0V8"/>{whisker}<path class="point {side}" d="M{at} 1.5V6.5"/>'
    return _svg("meter forest", drawn)


def histogram(counts: Sequence[int]) -> Markup:
    """Return a histogram without axes.

    Args:
        counts: heights of the bars, from left to right.
    """
    most, width = max([*counts, 1]), 100 / max(len(counts), 1)
    bars = [
        f'<rect class="bar" x="{number * width:.1f}" y="{8 - 8 * count / most:.2f}" width="{width * 0.85:.1f}" '
        f'height="{8 * count / most:.2f}"/>'
        for number, count in enumerate(counts)
        if count
    ]
    return _svg("meter tall", "".join(bars))


def _place(value: float, low: float, high: float) -> float:
    """Return a place on an axis, 0 to 100."""
    return round(100 * min(max((value - low) / (high - low), 0.0), 1.0), 1)


def _svg(kind: str, content: str) -> Markup:
    return Markup(
        f'<svg class="{kind}" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">{content}</svg>'
    )

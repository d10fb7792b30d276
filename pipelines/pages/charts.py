"""Charts as SVG, and heat maps as tables. They use CSS classes only, since a page's policy forbids inline styles.

Series differ in dash and shape as well as in colour. Each chart has a title for screen readers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

_WIDTH, _HEIGHT = 420, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 12, 26, 42
_MAX_POINTS = 400
_SHADES = 10


@dataclass(frozen=True, slots=True)
class Series:
    """A named series of points; a line chart joins them in order.

    Attributes:
        name: name in the legend.
        points: coordinates (x, y).
    """

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class _Axis:
    """Maps values from `low` to `high` linearly onto pixels, with ticks at round values."""

    low: float
    high: float
    first: float  # pixels
    last: float
    percent: bool = False

    def at(self, value: float) -> float:
        """Return the pixel of a value."""
        share = (value - self.low) / (self.high - self.low)
        return round(self.first + share * (self.last - self.first), 1)

    def ticks(self) -> list[float]:
        """Return about five round values within the axis."""
        step = _step(self.high - self.low)
        first = math.ceil(self.low / step - 1e-9)
        return [number * step for number in range(first, math.floor(self.high / step + 1e-9) + 1)]

    def words(self, value: float) -> str:
        """Return the label of a tick, with enough digits to distinguish it from its neighbours."""
        scaled, step = (100 * value, 100) if self.percent else (value, 1)
        digits = max(0, -math.floor(math.log10(_step(self.high - self.low) * step) + 1e-9))
        return f"{scaled:,.{digits}f}{' %' if self.percent else ''}"


def lines(
    series: Sequence[Series],
    *,
    title: str,
    x: str,
    y: str,
    percent: bool = False,
    x_percent: bool = False,
    mark: tuple[float, str] | None = None,
    diagonal: bool = False,
) -> Markup:
    """Return a line chart. Long series are drawn with evenly spaced points.

    Args:
        series: at most six series; series without points are omitted.
        title: description of the chart for screen readers.
        x: name of the x axis.
        y: name of the y axis.
        percent: whether y is a share from 0 to 1, shown in percent on a full axis.
        x_percent: whether x is a share from 0 to 1, shown in percent on a full axis.
        mark: a value of x to mark, and its label.
        diagonal: whether to draw the line y = x.
    """
    drawn = [Series(each.name, _thinned(each.points)) for each in series if each.points]
    if not drawn:
        return _nothing(title)
    across, up = _axes(drawn, percent, x_percent, mark)
    parts = [_frame(across, up, x, y)]
    if diagonal:
        parts.append(
            f'<line class="guide" x1="{across.at(across.low)}" y1="{up.at(across.low)}" '
            f'x2="{across.at(across.high)}" y2="{up.at(across.high)}"/>'
        )
    if mark:
        parts.append(_marked(across, *mark))
    for number, each in enumerate(drawn):
        points = " ".join(f"{across.at(a)},{up.at(b)}" for a, b in each.points)
        parts.append(f'<polyline class="line s{number % 6}" points="{points}"/>')
        if len(each.points) <= 12:
            parts += [_dot(number, across.at(a), up.at(b)) for a, b in each.points]
    return _svg(title, parts) + _legend(drawn, "line")


def scatter(groups: Sequence[Series], *, title: str, x: str, y: str) -> Markup:
    """Return a scatter plot whose groups differ in shape and colour.

    Args:
        groups: the groups of points.
        title: description of the chart for screen readers.
        x: name of the x axis.
        y: name of the y axis.
    """
    drawn = [Series(each.name, _thinned(each.points)) for each in groups if each.points]
    if not drawn:
        return _nothing(title)
    across, up = _axes(drawn, False, False, None)
    dots = [_dot(n, across.at(a), up.at(b)) for n, each in enumerate(drawn) for a, b in each.points]
    return _svg(title, [_frame(across, up, x, y), *dots]) + _legend(drawn, "dot")


def bars(rows: Sequence[tuple[str, float]], *, title: str, x: str, y: str) -> Markup:
    """Return a bar chart with vertical bars. If there are many names, only some are shown.

    Args:
        rows: (name, height) of each bar.
        title: description of the chart for screen readers.
        x: name of the x axis.
        y: name of the y axis.
    """
    if not rows:
        return _nothing(title)
    up = _Axis(0, max(max(value for _, value in rows), 1e-12), _HEIGHT - _BOTTOM, _TOP)
    room = (_WIDTH - _LEFT - _RIGHT) / len(rows)
    every = math.ceil(len(rows) / 8)
    parts = [_up(up, y), _name_of_x(x)]
    for number, (name, value) in enumerate(rows):
        left, top = round(_LEFT + room * number, 1), up.at(value)
        parts.append(
            f'<rect class="bar" x="{left}" y="{top}" width="{max(room - 1.5, 0.5):.1f}" '
            f'height="{round(_HEIGHT - _BOTTOM - top, 1)}"><title>{escape(name)}: {value:,}</title></rect>'
        )
        if number % every == 0:
            middle = round(left + room / 2, 1)
            parts.append(f'<text class="tick" x="{middle}" y="{_HEIGHT - _BOTTOM + 15}">{escape(name)}</text>')
    return _svg(title, parts)


def heat(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float | None]],
    *,
    title: str,
    percent: bool = True,
) -> Markup:
    """Return a heat map as a table whose cells are shaded from the smallest to the largest value.

    Args:
        rows: names of the rows.
        columns: names of the columns.
        values: values by row and column; None is an empty cell.
        title: description of the table for screen readers.
        percent: whether values are shares from 0 to 1, shown in percent.
    """
    known = [value for row in values for value in row if value is not None]
    low, high = (min(known), max(known)) if known else (0.0, 0.0)
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    body = []
    for name, row in zip(rows, values, strict=True):
        cells = []
        for value in row:
            if value is None:
                cells.append("<td></td>")
                continue
            shade = round((_SHADES - 1) * (value - low) / (high - low)) if high > low else 0
            words = f"{100 * value:.1f}" if percent else f"{value:,.3g}"
            cells.append(f'<td class="h{shade}">{words}</td>')
        body.append(f'<tr><th scope="row">{escape(name)}</th>{"".join(cells)}</tr>')
    return Markup(
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(title)}"><table class="heat">'
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def meter(share: float) -> Markup:
    """Return a horizontal bar for a table cell.

    Args:
        share: length of the bar, 0 to 1.
    """
    width = round(100 * min(max(share, 0.0), 1.0), 1)
    return Markup(
        '<svg class="meter" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="rest" width="100" height="8"/><rect class="bar" width="{width}" height="8"/></svg>'
    )


def _axes(
    series: Sequence[Series], percent: bool, x_percent: bool, mark: tuple[float, str] | None
) -> tuple[_Axis, _Axis]:
    across = [a for each in series for a, _ in each.points] + ([mark[0]] if mark else [])
    up = [b for each in series for _, b in each.points]
    return (
        _axis(across, _LEFT, _WIDTH - _RIGHT, x_percent),
        _axis(up, _HEIGHT - _BOTTOM, _TOP, percent),
    )


def _axis(values: Sequence[float], first: float, last: float, percent: bool) -> _Axis:
    if percent:
        return _Axis(0.0, 1.0, first, last, True)
    low, high = min(values), max(values)
    if low >= 0 and low < high / 2:
        low = 0.0  # Close enough to zero that an axis without zero would mislead.
    if low == high:
        low, high = low - 0.5, high + 0.5
    return _Axis(low, high, first, last)


def _step(length: float) -> float:
    rough = length / 5
    unit = 10.0 ** math.floor(math.log10(rough))
    return next(unit * each for each in (1, 2, 2.5, 5, 10) if unit * each >= rough * 0.999)


def _frame(across: _Axis, up: _Axis, x: str, y: str) -> str:
    floor = _HEIGHT - _BOTTOM
    ticks = "".join(
        f'<text class="tick" x="{across.at(value)}" y="{floor + 15}">{across.words(value)}</text>'
        for value in across.ticks()
    )
    return _up(up, y) + ticks + _name_of_x(x)


def _up(up: _Axis, y: str) -> str:
    parts = [f'<text class="axis" x="4" y="12">{escape(y)}</text>']
    for value in up.ticks():
        height = up.at(value)
        parts.append(f'<line class="grid" x1="{_LEFT}" y1="{height}" x2="{_WIDTH - _RIGHT}" y2="{height}"/>')
        parts.append(f'<text class="tick end" x="{_LEFT - 6}" y="{height}" dy="0.35em">{up.words(value)}</text>')
    return "".join(parts)


def _name_of_x(x: str) -> str:
    return f'<text class="axis end" x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 6}">{escape(x)}</text>'


def _marked(across: _Axis, value: float, words: str) -> str:
    place = across.at(value)
    side = "end" if place > _WIDTH / 2 else "start"
    shift = -5 if side == "end" else 5
    return (
        f'<line class="marked" x1="{place}" y1="{_TOP}" x2="{place}" y2="{_HEIGHT - _BOTTOM}"/>'
        f'<text class="axis {side}" x="{place + shift}" y="{_HEIGHT - _BOTTOM - 8}">{escape(words)}</text>'
    )


#: Shapes of points, by series, around the origin.
_SHAPES = ("M-3.5,0a3.5,3.5 0 1 0 7,0a3.5,3.5 0 1 0 -7,0", "M-3.2,-3.2h6.4v6.4h-6.4z", "M0,-4.2L4,3.2H-4z",
           "M0,-4.5L4.5,0L0,4.5L-4.5,0z", "M-4,-3.2H4L0,4.2z", "M-4,-1h3v-3h2v3h3v2h-3v3h-2v-3h-3z")  # fmt: skip


def _dot(number: int, x: float, y: float) -> str:
    return f'<path class="dot s{number % 6}" transform="translate({x} {y})" d="{_SHAPES[number % 6]}"/>'


def _legend(series: Sequence[Series], kind: str) -> Markup:
    if len(series) == 1:
        return Markup("")
    items = []
    for number, each in enumerate(series):
        sample = _dot(number, 14, 6)
        if kind == "line":
            sample = f'<line class="line s{number % 6}" x1="0" y1="6" x2="28" y2="6"/>' + sample
        items.append(
            f'<li><svg class="key" viewBox="0 0 28 12" aria-hidden="true">{sample}</svg> {escape(each.name)}</li>'
        )
    return Markup(f'<ul class="legend">{"".join(items)}</ul>')


def _svg(title: str, parts: Sequence[str]) -> Markup:
    return Markup(
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"><title>{escape(title)}</title>'
        f"{''.join(parts)}</svg>"
    )


def _nothing(title: str) -> Markup:
    return Markup('<p class="none">{}: nothing to draw.</p>').format(title)


def _thinned(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    if len(points) <= _MAX_POINTS:
        return points
    last = len(points) - 1
    return [points[round(number * last / (_MAX_POINTS - 1))] for number in range(_MAX_POINTS)]

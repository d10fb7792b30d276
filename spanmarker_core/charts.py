"""Charts as SVG, for pages and for files beside model cards, and heat maps as tables.

Series differ in dash and shape as well as in colour. Each chart has a title for screen readers. Charts are complete
without a style sheet; colours are presentation attributes, which a page's policy allows, unlike inline styles, and
which its style sheet overrides by CSS classes.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

_WIDTH, _HEIGHT = 420, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 12, 26, 42
_INK, _GRID = "#222", "#d5dbe1"
#: Colours from a palette for colour-blind readers, dashes, and shapes of points around the origin, by series.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b57d00", "#56b4e9")
_DASHES = ("none", "7 3", "2 3", "9 3 2 3", "12 4", "4 2")
_SHAPES = ("M-3.5,0a3.5,3.5 0 1 0 7,0a3.5,3.5 0 1 0 -7,0", "M-3.2,-3.2h6.4v6.4h-6.4z", "M0,-4.2L4,3.2H-4z",
           "M0,-4.5L4.5,0L0,4.5L-4.5,0z", "M-4,-3.2H4L0,4.2z", "M-4,-1h3v-3h2v3h3v2h-3v3h-2v-3h-3z")  # fmt: skip
_MAX_POINTS, _MAX_DOTS = 400, 12  # of a series that are drawn, and of a line with a shape at each
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
    """Maps values from `low` to `high` onto pixels, linearly or by their logarithms, with ticks at round values."""

    low: float
    high: float
    first: float  # pixels
    last: float
    percent: bool = False
    log: bool = False

    def at(self, value: float) -> float:
        """Return the pixel of a value."""
        low, high, value = map(math.log, (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        return round(self.first + (value - low) / (high - low) * (self.last - self.first), 1)

    def ticks(self) -> list[float]:
        """Return about five round values within the axis; on a logarithmic axis, 1, 2 and 5 times powers of ten."""
        if self.log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            values = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
            return [value for value in values if self.low <= value <= self.high * (1 + 1e-9)]
        step = _step(self.high - self.low)
        first = math.ceil(self.low / step - 1e-9)
        return [number * step for number in range(first, math.floor(self.high / step + 1e-9) + 1)]

    def words(self, value: float) -> str:
        """Return the label of a tick, with enough digits to distinguish it from its neighbours."""
        scaled, unit, scale = (100 * value, " %", 100) if self.percent else (value, "", 1)
        if self.log:
            return f"{scaled:g}{unit}"
        digits = max(0, -math.floor(math.log10(_step(self.high - self.low) * scale) + 1e-9))
        return f"{scaled:,.{digits}f}{unit}"


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
    guide = ""
    if diagonal:
        guide = (
            f'<line class="guide" stroke="{_INK}" stroke-dasharray="2 4" x1="{across.at(across.low)}" '
            f'y1="{up.at(across.low)}" x2="{across.at(across.high)}" y2="{up.at(across.high)}"/>'
        )
    marked = _marked(across, *mark) if mark else ""
    return _svg(title, [_frame(across, up, x, y), guide, marked, *_curves(drawn, across, up)]) + _legend(drawn, "line")


def lines_file(
    series: Sequence[Series], *, title: str, x: str, y: str, low: tuple[float, float], mark: tuple[float, str] | None
) -> str:
    """Return a line chart of shares as a self-contained SVG file with a legend. The x axis is logarithmic.

    Args:
        series: as for `lines`, of shares from 0 to 1.
        title: description of the chart for screen readers.
        x: name of the x axis.
        y: name of the y axis.
        low: lowest values of the axes; both end at 1.
        mark: a value of x to mark, and its label in the legend.
    """
    drawn = [each for each in series if each.points]
    across = _Axis(low[0], 1.0, _LEFT, _WIDTH - _RIGHT, percent=True, log=True)
    up = _Axis(low[1], 1.0, _HEIGHT - _BOTTOM, _TOP, percent=True)
    legend, left = [], 0
    for number, each in enumerate(drawn):
        legend.append(_entry(left, _HEIGHT, _sample(number, "line"), each.name))
        left += 48 + 6 * len(each.name)
    if mark:
        sample = f'<path {_MARKED} d="M14 -1v14"/>'
        legend.append(_entry(0, _HEIGHT + 20, sample, mark[1]))
    marked = _marked(across, mark[0], "") if mark else ""
    width, height = _WIDTH + 12, _HEIGHT + 42  # room for half of the last tick, and for the legend
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{1.5 * width:g}" '
        f'height="{1.5 * height:g}" font-family="sans-serif" font-size="12" fill="{_INK}">'
        f'<title>{escape(title)}</title><rect width="{width}" height="{height}" fill="#fff"/>'
        f"{_frame(across, up, x, y)}{marked}{''.join(_curves(drawn, across, up))}{''.join(legend)}</svg>\n"
    )


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
    dots = [_dots(number, each, across, up) for number, each in enumerate(drawn)]
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
            f'<rect class="bar" fill="{_COLOURS[0]}" x="{left}" y="{top}" width="{max(room - 1.5, 0.5):.1f}" '
            f'height="{round(_HEIGHT - _BOTTOM - top, 1)}"><title>{escape(name)}: {value:,}</title></rect>'
        )
        if number % every == 0:
            middle = round(left + room / 2, 1)
            parts.append(_text("tick", "middle", middle, _HEIGHT - _BOTTOM + 15, name))
    return _svg(title, parts)


def heat(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float | None]],
    *,
    title: str,
    percent: bool = True,
    digits: int = 1,
) -> Markup:
    """Return a heat map as a table whose cells are shaded from the smallest to the largest value.

    Args:
        rows: names of the rows.
        columns: names of the columns.
        values: values by row and column; None is an empty cell.
        title: description of the table for screen readers.
        percent: whether values are shares from 0 to 1, shown in percent.
        digits: number of decimal places.
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
            words = f"{100 * value if percent else value:.{digits}f}".replace("-", "\N{MINUS SIGN}")
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
    floor = _HEIGHT - _BOTTOM + 15
    ticks = "".join(_text("tick", "middle", across.at(value), floor, across.words(value)) for value in across.ticks())
    return _up(up, y) + ticks + _name_of_x(x)


def _up(up: _Axis, y: str) -> str:
    parts = [_text("axis", "start", 4, 12, y)]
    for value in up.ticks():
        height = up.at(value)
        parts.append(f'<path class="grid" stroke="{_GRID}" d="M{_LEFT} {height}H{_WIDTH - _RIGHT}"/>')
        parts.append(_text("tick", "end", _LEFT - 6, round(height + 4, 1), up.words(value)))
    return "".join(parts)


def _name_of_x(x: str) -> str:
    return _text("axis", "end", _WIDTH - _RIGHT, _HEIGHT - 6, x)


_MARKED = f'class="marked" stroke="{_INK}" stroke-dasharray="4 3"'


def _marked(across: _Axis, value: float, words: str) -> str:
    place = across.at(value)
    side, shift = ("end", -5) if place > _WIDTH / 2 else ("start", 5)
    label = _text("axis", side, round(place + shift, 1), _HEIGHT - _BOTTOM - 8, words) if words else ""
    return f'<path {_MARKED} d="M{place} {_TOP}V{_HEIGHT - _BOTTOM}"/>{label}'


def _text(kind: str, anchor: str, x: float, y: float, words: str) -> str:
    return f'<text class="{kind}" text-anchor="{anchor}" x="{x}" y="{y}">{escape(words)}</text>'


def _curves(series: Sequence[Series], across: _Axis, up: _Axis) -> Iterator[str]:
    for number, each in enumerate(series):
        yield _group(number, _line(number, " ".join(f"{across.at(a)},{up.at(b)}" for a, b in each.points)))
        if len(each.points) <= _MAX_DOTS:
            yield _dots(number, each, across, up)


def _dots(number: int, series: Series, across: _Axis, up: _Axis) -> str:
    return _group(number, "".join(_dot(number, across.at(a), up.at(b)) for a, b in series.points))


def _group(number: int, content: str) -> str:
    return f'<g class="s{number % 6}" fill="{_COLOURS[number % 6]}">{content}</g>'


def _line(number: int, points: str) -> str:
    return (
        f'<polyline class="line" fill="none" stroke="{_COLOURS[number % 6]}" stroke-width="2" '
        f'stroke-dasharray="{_DASHES[number % 6]}" points="{points}"/>'
    )


def _dot(number: int, x: float, y: float) -> str:
    return f'<path class="dot" transform="translate({x} {y})" d="{_SHAPES[number % 6]}"/>'


def _sample(number: int, kind: str) -> str:
    """Return the key of a series in a legend, 28 by 12 pixels."""
    return _group(number, (_line(number, "0,6 28,6") if kind == "line" else "") + _dot(number, 14, 6))


def _entry(x: float, y: float, sample: str, words: str) -> str:
    """Return an entry of a legend within a chart."""
    return f'<g transform="translate({x + 8} {y})">{sample}{_text("axis", "start", 34, 10, words)}</g>'


def _legend(series: Sequence[Series], kind: str) -> Markup:
    if len(series) == 1:
        return Markup("")
    items = [
        f'<li><svg class="key" viewBox="0 0 28 12" aria-hidden="true">{_sample(number, kind)}</svg> '
        f"{escape(each.name)}</li>"
        for number, each in enumerate(series)
    ]
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

"""Chart of a gate's curve: share of entities kept against share of spans kept."""

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

_WIDTH, _HEIGHT = 640, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 64, 56
#: Column of the curve, legend, colour (from a palette for colour-blind readers) and dash pattern.
_SERIES = (
    ("recall_of_model", "entities of the ungated model", "#0072b2", ""),
    ("recall_of_gold", "gold entities", "#d55e00", "6 3"),
    ("f1", "F1", "#009e73", "2 3"),
)

#: Points below this recall of the model's entities are not useful choices, and would compress the rest of the chart.
_LEAST_RECALL = 0.8

Point = tuple[float, float]


def curve_svg(gate: Mapping[str, Any]) -> str:
    """Draw a gate's curve as a self-contained SVG.

    Args:
        gate: gate of a `ModelConfig`; its curve may lack any column except `threshold` and `kept`.
    """
    shown = (point for point in gate["curve"] if point["kept"] > 0 and _is_of_use(point, gate["threshold"]))
    points = sorted(shown, key=lambda point: point["kept"])
    kept = [point["kept"] for point in points]
    found = [point[column] for column, *_ in _SERIES for point in points if column in point]
    frame = _Frame(min(kept, default=0.01), min(found, default=0.9))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" font-family="sans-serif" font-size="12" fill="#222">',
        "<title>What the gate keeps</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
        *frame.axes("share of candidate spans kept", "share found"),
    ]
    column = _LEFT
    for name, words, colour, dashes in _SERIES:
        line = [frame.place(point["kept"], point[name]) for point in points if name in point]
        if not line:
            continue
        style = f'stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"'
        parts += [
            f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in line)}" fill="none" {style}/>',
            *(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in line),
            f'<path d="M{column} 22h24" {style}/>',
            _text(column + 30, 26, words),
        ]
        column += 60 + 7 * len(words)
    parts += _chosen(frame, points, gate["threshold"])
    return "\n".join([*parts, "</svg>"]) + "\n"


def _is_of_use(point: Mapping[str, float], chosen: float) -> bool:
    return point["threshold"] == chosen or point.get("recall_of_model", 1.0) >= _LEAST_RECALL


class _Frame:
    """Axes from the lowest values to 100 %: x logarithmic, y linear."""

    def __init__(self, lowest_x: float, lowest_y: float) -> None:
        self.low_x = math.log10(min(lowest_x, 0.5)) - 0.05
        self.low_y = min(0.95, math.floor(lowest_y * 20) / 20)

    def place(self, x: float, y: float) -> Point:
        """Return the position of a point in the units of the chart.

        Args:
            x: value on the x axis, above 0 and up to 1.
            y: value on the y axis, 0 to 1.
        """
        across = 1 - math.log10(x) / self.low_x
        up = (y - self.low_y) / (1 - self.low_y)
        return _LEFT + across * (_WIDTH - _LEFT - _RIGHT), _HEIGHT - _BOTTOM - up * (_HEIGHT - _TOP - _BOTTOM)

    def axes(self, x_title: str, y_title: str) -> Iterator[str]:
        """Yield the grid, the tick labels and the axis titles.

        Args:
            x_title: title of the x axis.
            y_title: title of the y axis.
        """
        bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
        for x in self._x_ticks():
            at, _ = self.place(x, 1)
            yield f'<path d="M{at:.1f} {_TOP}V{bottom}" stroke="#ddd"/>'
            yield _text(at, bottom + 18, f"{100 * x:g} %", "middle")
        step = next(step for step in (0.01, 0.02, 0.05, 0.1, 0.2) if (1 - self.low_y) / step <= 8)
        for number in range(math.ceil(self.low_y / step - 1e-9), round(1 / step) + 1):
            _, at = self.place(1, number * step)
            yield f'<path d="M{_LEFT} {at:.1f}H{right}" stroke="#ddd"/>'
            yield _text(_LEFT - 8, at + 4, f"{100 * number * step:g} %", "end")
        yield f'<path d="M{_LEFT} {_TOP}V{bottom}H{right}" stroke="#222" fill="none"/>'
        yield _text((_LEFT + right) / 2, _HEIGHT - 14, x_title, "middle")
        middle = (_TOP + bottom) / 2
        yield f'<g transform="rotate(-90 16 {middle})">{_text(16, middle, y_title, "middle")}</g>'

    def _x_ticks(self) -> Iterator[float]:
        for power in range(math.floor(self.low_x), 1):
            for digit in (1, 2, 5):
                if self.low_x <= math.log10(digit) + power <= 0:
                    yield digit * 10.0**power


def _chosen(frame: _Frame, points: Sequence[Mapping[str, float]], threshold: float) -> Iterator[str]:
    """Yield a ring and a caption for the point at the gate's threshold."""
    for point in points:
        column = next((name for name, *_ in _SERIES if name in point), None)
        if point["threshold"] != threshold or column is None:
            continue
        x, y = frame.place(point["kept"], point[column])
        anchor = "start" if x < _WIDTH / 2 else "end"
        words = f"threshold {threshold:g}: {100 * point['kept']:.3g} % of the spans, {point[column]:.1%} found"
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="none" stroke="#222" stroke-width="2"/>'
        yield _text(x + (10 if anchor == "start" else -10), _TOP - 14, words, anchor)
        yield f'<path d="M{x:.1f} {_TOP - 8}V{y - 7:.1f}" stroke="#222" stroke-dasharray="1 2"/>'
        return


def _text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'

"""Charts: axes, small output, and no colour without a dash or a shape. `test_pages.py` looks at them in a browser."""

import re
import xml.etree.ElementTree as ET

import pytest

from spanmarker_core import charts

AXES = {"title": "t", "x": "x", "y": "y"}


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(0.0, 1.0, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]), (0.0, 1234.0, ["0", "250", "500", "750", "1,000"]),
     (-3.0, 4.0, ["-2", "0", "2", "4"])],
)  # fmt: skip
def test_ticks_are_round(low, high, ticks):
    axis = charts._Axis(low, high, 0, 100)
    assert [axis.words(value) for value in axis.ticks()] == ticks


def test_charts_of_nothing_and_of_one_point():
    assert "nothing to draw" in charts.lines([], title="t", x="x", y="y")
    assert "nothing to draw" in charts.bars([], title="t", x="x", y="y")
    assert "<polyline" in charts.lines([charts.Series("a", [(3, 3)])], title="t", x="x", y="y")
    assert 'height="0' in charts.bars([("a", 0)], title="t", x="x", y="y")


def test_a_chart_of_many_points_is_small():
    points = [(n, n % 7) for n in range(100_000)]
    assert len(charts.lines([charts.Series("a", points)], title="t", x="x", y="y")) < 10_000


def test_ticks_of_a_logarithmic_axis():
    axis = charts._Axis(0.012, 1.0, 0, 100, percent=True, log=True)
    assert [axis.words(value) for value in axis.ticks()] == ["2 %", "5 %", "10 %", "20 %", "50 %", "100 %"]
    assert axis.at(0.012) == 0
    assert axis.at(0.12**0.5 * 0.1**0.5) == pytest.approx(50, abs=0.1)
    assert axis.at(1.0) == 100


def test_series_differ_in_dash_and_shape_as_well_as_in_colour():
    made = charts.lines([charts.Series(name, [(0, n), (1, n)]) for n, name in enumerate("abcdef")], **AXES)
    for pattern in (r'stroke-dasharray="([^"]*)" points', r' d="(M[^"]*)"/></g>', r'<g class="s\d" fill="([^"]*)"'):
        assert len(set(re.findall(pattern, made))) == 6, pattern
    assert "style=" not in made
    assert "<title>t</title>" in made


def test_a_file_has_what_a_page_has():
    series = [
        charts.Series("a & b", [(0.02, 0.7), (0.5, 0.9)]),
        charts.Series("none", []),
        charts.Series("c", [(1, 1)]),
    ]
    made = charts.lines_file(series, **AXES, low=(0.01, 0.5), mark=(0.1, "here"))
    root = ET.fromstring(made)
    name = "{http://www.w3.org/2000/svg}"
    assert root.find(f"{name}title").text == "t"
    assert {"a & b", "c", "here", "x", "y", "1 %", "50 %", "100 %"} <= {each.text for each in root.iter(f"{name}text")}
    assert len(list(root.iter(f"{name}polyline"))) == 4  # two curves, two keys
    assert "style" not in made

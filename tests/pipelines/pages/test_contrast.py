"""Text on pages is legible: WCAG 2 level AA, computed from the colours in the style, in light, dark and print."""

import re
from itertools import product

import pytest

from pipelines.pages import _resource

STYLE = re.sub(r"/\*.*?\*/", "", _resource("style.css"), flags=re.DOTALL)
MODES = dict(zip(("light", "dark", "print"), re.findall(r":root\s*\{(.*?)\}", STYLE, re.DOTALL), strict=True))
LABELS = [f"c{number}" for number in range(9)] + ["good", "alarm"]  # colours of marks
TEXT, GRAPHICS = 4.5, 3.0


def channels(colour: str) -> tuple[float, ...]:
    if colour.startswith("#"):
        digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
        return tuple(int(digits[at : at + 2], 16) for at in (0, 2, 4))
    return tuple(map(float, colour.split(",")))


def colours(mode: str) -> dict[str, tuple[float, ...]]:
    pairs = re.findall(r"--([\w-]+):\s*(#[0-9a-f]+|\d+, \d+, \d+);", MODES[mode])
    return {name: channels(value) for name, value in pairs}


def mixed(over: tuple[float, ...], under: tuple[float, ...], share: float) -> tuple[float, ...]:
    return tuple(share * a + (1 - share) * b for a, b in zip(over, under, strict=True))


def luminance(colour: tuple[float, ...]) -> float:
    linear = [each / 255 / 12.92 if each <= 10 else ((each / 255 + 0.055) / 1.055) ** 2.4 for each in colour]
    return sum(weight * each for weight, each in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def share(selector: str, of: str = "") -> float:
    """The share of a mark's colour in a background of the style."""
    rule = re.search(rf"^{re.escape(selector)} \{{(.*?)\}}", STYLE, re.MULTILINE)[1]
    return (
        float(re.search(rf"color-mix\(in srgb, var\(--m\) (\d+)%, {re.escape(of or 'transparent')}\)", rule)[1]) / 100
    )


def test_contrast_is_that_of_the_standard():
    assert contrast(channels("#000"), channels("#fff")) == pytest.approx(21)
    assert contrast(channels("#777777"), channels("#ffffff")) == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("mode", MODES)
def test_text_is_legible_on_pages_and_on_marks(mode):
    found = colours(mode)
    grounds = {name: found[name] for name in ("paper", "tint")}
    for name in ("ink", "soft", "link", "alarm", "good"):
        for ground in grounds.values():
            assert contrast(found[name], ground) >= TEXT, name
    assert contrast(found["paper"], found["link"]) >= TEXT  # the buttons of forms
    for label, ground in product(LABELS, grounds.values()):
        assert contrast(found["ink"], mixed(found[label], ground, share("mark"))) >= TEXT, label
        assert contrast(found["ink"], mixed(found[label], found["paper"], share("mark b", "var(--paper)"))) >= TEXT
    for opacity in re.findall(r"rgba\(var\(--heat\), ([\d.]+)\)", STYLE):
        for ground in grounds.values():
            assert contrast(found["ink"], mixed(found["heat"], ground, float(opacity))) >= TEXT, opacity


@pytest.mark.parametrize("mode", MODES)
def test_lines_bars_and_edges_of_marks_are_seen(mode):
    found = colours(mode)
    for name in [*LABELS, "soft"]:
        for ground in ("paper", "tint"):
            assert contrast(found[name], found[ground]) >= GRAPHICS, name
    assert contrast(found["c0"], found["line"]) >= GRAPHICS  # bars on what they do not fill


def test_no_other_colour_is_used_for_text():
    used = set(re.findall(r"[;{\s]color: ([^;}]+)", STYLE))
    assert used == {
        "var(--ink)",
        "var(--soft)",
        "var(--link)",
        "var(--paper)",
        "var(--alarm)",
        "var(--good)",
        "inherit",
    }
    assert "opacity" not in STYLE.replace("-opacity", "")

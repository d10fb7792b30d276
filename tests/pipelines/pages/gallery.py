"""One page with every part that the shell has, filled with what documents may hold at worst."""

from markupsafe import Markup

from pipelines import pages
from pipelines.pages import cells
from pipelines.pages.text import Mark, highlighted
from spanmarker_core import charts

HOSTILE = (
    "<script>document.title='owned'</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "{{ 7 * 7 }}{% raw %}",
    "\u202egnp.exe \u2066abc\u2069",
    "שלום עולם مرحبا بالعالم",
    "nul \x00 bell \x07 line\nbreak \u2028 lone \ud800",
    "x" * 1_000_000,
    "&amp; &lt; ' \" ` javascript:alert(1)",
    "https://example.org/" + "a" * 300,
)

TEMPLATE = """
{% extends "base.html.j2" %}
{% from "parts.html.j2" import cards, contents, facts, figure, note, section, table %}
{% block summary %}
<p>{{ hostile[0] }}</p>
{{ cards([('F1', 0.7712 | percent, 'micro'), ('documents', 1234567, hostile[0]), ('time', 3725 | seconds, '')]) }}
{{ contents([('numbers', 'Numbers'), ('text', 'Text')]) }}
{% endblock %}
{% block main %}
{% call section('Numbers', 'numbers') %}
{{ note(hostile[1], 'alarm') }}
{{ note('All is well.', 'good') }}
{{ table(['label', 'F1', 'support', ''], rows, 'By label', [1, 2]) }}
<div class="figures">
{{ figure(curve, 'Precision and recall against the threshold') }}
{{ figure(bars, 'Scores') }}
{{ figure(points, 'Points') }}
{{ figure(heat, 'F1 by bucket') }}
</div>
{% endcall %}
{% call section('Text', 'text') %}
{{ facts([('model', hostile[9]), ('note', hostile[4])]) }}
{{ table(['what'], hostile | map('list_of')) }}
{% for text in texts %}<p>{{ text }}</p>{% endfor %}
{% endcall %}
{% endblock %}
"""


def gallery() -> bytes:
    """Return the page."""
    environment = pages._environment().overlay()
    environment.filters = {**environment.filters, "list_of": lambda value: [value]}
    text = environment.from_string(TEMPLATE).render(
        title=f"Gallery {HOSTILE[0]}",
        headline="",
        policy=pages.policy(),
        hostile=HOSTILE,
        rows=[
            ("PER", pages.percent(0.5), 12, charts.meter(0.5)),
            (HOSTILE[0], pages.percent(1.0), 9, charts.meter(1)),
            ("LOC", pages.percent(0.09), 1200, charts.meter(0.09)),
            ("none", pages.percent(None), None, Markup("")),
            ("ORG", pages.percent(0.4), 3, cells.bar(0.4, 0.3, 0.6)),
        ],
        **drawings(),
        texts=texts(),
    )
    return text.encode("utf-8", "replace")


def drawings() -> dict[str, Markup]:
    """Return one chart of each kind."""
    wave = [(n / 20, 0.5 + 0.4 * (n / 20) * (1 - n / 20)) for n in range(21)]
    series = [charts.Series(name, [(x, y * (1 - 0.1 * n)) for x, y in wave]) for n, name in enumerate("PQRSTU")]
    heights = [(f"{n / 20:.2f}", float(n * 7919 % 40)) for n in range(20)]
    clouds = [
        charts.Series(name, [((n * 37 % 19) - 9 + k, (n * 53 % 23) - 11 - k) for n in range(25)])
        for k, name in enumerate("PQRST")
    ]
    shares = [[0.1, 0.4, 0.7, None], [0.5, 0.8, 0.93, 0.2]]
    curve = {"percent": True, "x_percent": True, "mark": (0.4, "chosen"), "diagonal": True}
    return {
        "curve": charts.lines(series, title="curves", x="threshold", y="share", **curve),
        "bars": charts.bars(heights, title="bars", x="score", y="entities"),
        "points": charts.scatter(clouds, title="points", x="first component", y="second component"),
        "heat": charts.heat(["entity length", "density"], ["XS", "S", "L", "XL"], shares, title="heat"),
    }


def texts() -> list[Markup]:
    """Return highlights that nest, cross and lie deep in a long text."""
    crossing = [
        Mark(0, 7, "PER", "right"),
        Mark(11, 26, "ORG", "missed"),
        Mark(11, 15, "LOC", "wrong"),
        Mark(37, 51, "LOC"),
    ]
    hostile = [Mark(3, 20, HOSTILE[1], "wrong"), Mark(45, 52, "PER", tone=2)]
    return [
        highlighted("Ann Lee of York University in the United Kingdom said so.", crossing),
        highlighted(f"{HOSTILE[0]} and {HOSTILE[5]}", hostile),
        highlighted("y" * 500_000 + "Ann" + "z" * 500_000, [Mark(500_000, 500_003, "PER")]),
    ]

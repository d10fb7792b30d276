"""Writer of representation reports: representations.json, .md and .html."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from pipelines.pages import render
from pipelines.pages.figures import decimal, number
from pipelines.pages.text import name
from pipelines.report.evaluation_page import format_fact, short
from pipelines.report.folder import publish_files
from pipelines.report.representation_findings import representation_findings, representation_headline
from spanmarker_core import charts
from spanmarker_core.charts import Series
from spanmarker_core.text.counted import counted
from spanmarker_core.text.markdown import cell, table

#: Maximum number of classes in the chart of cosines, the most frequent ones, limited by the width of a page.
_CLASSES = 8
#: Levels of overlap: words shared by two spans divided by the words in either.
_LEVELS = {"none": "none", "weak": "up to 0.5", "strong": "above 0.5"}
_NO_ENTITY = "no entity"
#: Difference of two cosines that a chart shows.
_VISIBLE = 0.02


def publish_representations(folder: str, values: Mapping[str, Any]) -> str:
    """Write the three files and return the path of the page.

    Args:
        folder: a path or URL.
        values: values of `spanmarker_core.evaluation.representations.representations.Representations.to_json`.
    """
    return publish_files(folder, "representations", values, to_markdown(values), representations_page(values))


def to_markdown(values: Mapping[str, Any]) -> str:
    """Return the analysis as Markdown.

    Args:
        values: values of the analysis.
    """
    cosines, templates = values["cosines"], values["templates"]
    lines = ["# Representations", "", f"{_what(values)}", "", "## Overlapping spans", ""]
    lines += table(
        ["overlap with neighbours", "pairs", "cosine with all", "cosine with non-entities"],
        [[_LEVELS[e["name"]], e["pairs"], _plain(e["cosine"]), _plain(e["no_entity"])] for e in values["overlaps"]],
    )
    rows = [
        ["mean norm of entities", values["entity_norm"]],
        ["mean norm of non-entities", values["norms"][-1]["mean"]],
        ["cosine within an entity class", cosines["within"]],
        ["cosine between entity classes", cosines["between"]],
        ["cosine between entities and non-entities", cosines["no_entity"]],
        ["mean norm of templates", templates["norm"]],
        ["absolute cosine of templates", templates["pairs"]],
        ["between two entity labels", templates["between"]],
        ["between an entity label and the outside label", templates["no_entity"]],
    ]
    lines += ["", "## Norms and cosines", "", *table(["", "mean"], [[name, _plain(value)] for name, value in rows])]
    heads = ["class", "spans", "taken", "norm", "deviation", "cosine within", "with other classes", "with no entity"]
    lines += ["", "## Classes", "", *table(heads, [_markdown_class(row) for row in _classes(values)])]
    share = sum(values["plane"]["variance"])
    lines += [
        "",
        f"The first two principal components of entities of {len(values['plane']['points']):,} labels explain "
        f"{100 * share:.1f} % of the variance.",
        "",
        *(f"{note}\n" for note in notes(values)),
        values["conventions"],
        "",
        *table(["", ""], [[cell(name), cell(format_fact(value))] for name, value in values["facts"].items()]),
    ]
    return "\n".join(lines) + "\n"


def representations_page(values: Mapping[str, Any]) -> bytes:
    """Return the analysis as a web page.

    Args:
        values: values of the analysis.
    """
    norms = values["norms"]
    return render(
        "representations",
        title="Representations",
        headline=representation_headline(values),
        findings=representation_findings(values),
        what=_what(values),
        values=values,
        no_entity=norms[-1],
        notes=notes(values),
        facts=[(name.replace("_", " "), format_fact(value)) for name, value in values["facts"].items()],
        overlaps={each["name"]: each for each in values["overlaps"]},
        levels=[
            [_LEVELS[each["name"]], number(each["pairs"]), decimal(each["cosine"], 3), decimal(each["no_entity"], 3)]
            for each in values["overlaps"]
        ],
        ratios=_ratios(values["ratios"]),
        classes=[_page_class(row) for row in _classes(values)],
        histogram=_histogram(values["histogram"]),
        heat=_heat(values),
        left_out=max(0, len(norms) - 1 - _CLASSES),
        plane=_plane(values["plane"]),
        templates=_templates(values["templates"]),
    )


def notes(values: Mapping[str, Any]) -> list[str]:
    """Return notes that qualify the figures.

    Args:
        values: values of the analysis.
    """
    found = []
    if values["unreachable"]:
        found.append(
            f"{counted(values['unreachable'], 'entity', 'entities')} without a representation: longer than "
            "entity_max_length, or with a first or last word that has no token."
        )
    if values["unknown"]:
        labels = ", ".join(short(label) for label in values["unknown"][:_CLASSES])
        more = len(values["unknown"]) - _CLASSES
        found.append(
            f"The model has no class for {labels}{f' and {more:,} more' if more > 0 else ''}, which the data contain."
        )
    if zero := sum(each["zero"] for each in values["norms"]):
        found.append(f"{zero:,} of the sampled spans have a representation of zeros, which has no cosine.")
    return found


def _what(values: Mapping[str, Any]) -> str:
    taken = [each["taken"] for each in values["norms"]]
    return (
        f"{sum(taken[:-1]):,} entities of {len(taken) - 1:,} classes and {taken[-1]:,} spans that are not entities, "
        f"up to {values['limit']:,} per class, from {values['sentences']:,} sentences; each has {values['size']:,} "
        "numbers."
    )


def _classes(values: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], list[float | None]]]:
    """Return the norms and cosines of each class: within it, with other entity classes, and with non-entities."""
    matrix = values["cosines"]["matrix"]
    last = len(matrix) - 1
    rows = []
    for place, each in enumerate(values["norms"]):
        others = [cosine for other, cosine in enumerate(matrix[place][:last]) if other != place and cosine is not None]
        mean = sum(others) / len(others) if others else None
        rows.append((each, [matrix[place][place], mean, matrix[place][last] if place < last else None]))
    return rows


def _markdown_class(row: tuple[Mapping[str, Any], list[float | None]]) -> list[object]:
    each, cosines = row
    name = f"*{_NO_ENTITY}*" if each["label"] is None else cell(each["label"])
    return [name, each["seen"], each["taken"], *map(_plain, (each["mean"], each["deviation"], *cosines))]


def _page_class(row: tuple[Mapping[str, Any], list[float | None]]) -> list[object]:
    each, cosines = row
    return [
        _NO_ENTITY if each["label"] is None else name(each["label"]),
        number(each["seen"]),
        number(each["taken"]),
        *(decimal(each[name], 2) for name in ("mean", "deviation")),
        *(decimal(cosine, 3) for cosine in cosines),
    ]


def _plain(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _ratios(ratios: Sequence[Mapping[str, Any]]) -> Any:
    measured = [each for each in ratios if each["cosine"] is not None]
    series = [Series("all neighbours", [(each["ratio"], each["cosine"]) for each in measured])]
    others = [(each["ratio"], each["no_entity"]) for each in ratios if each["no_entity"] is not None]
    if _differ(dict(series[0].points), dict(others)):  # otherwise one line covers the other
        series.append(Series("neighbours that are not entities", others))
    return charts.lines(series, title="Cosine by overlap ratio", x="share of common words, up to", y="mean cosine")


def _differ(first: Mapping[float, float], second: Mapping[float, float]) -> bool:
    return any(abs(value - second[ratio]) > _VISIBLE for ratio, value in first.items() if ratio in second)


def _histogram(histogram: Mapping[str, Sequence[float]]) -> Any:
    edges = histogram["edges"]
    middles = [(low + high) / 2 for low, high in pairwise(edges)]
    series = [
        Series(name, list(zip(middles, [100 * share for share in histogram[key]], strict=True)))
        for name, key in (("entities", "entities"), (_NO_ENTITY, "no_entity"))
    ]
    return charts.lines(series, title="Spans by norm", x="norm", y="% of spans")


def _heat(values: Mapping[str, Any]) -> Any:
    last = len(values["norms"]) - 1
    places = [*range(min(last, _CLASSES)), last]
    labels = [values["norms"][place]["label"] for place in places]
    names = [_NO_ENTITY if label is None else name(label) for label in labels]
    matrix = values["cosines"]["matrix"]
    cells = [[None if (cosine := matrix[a][b]) is None else round(cosine, 2) for b in places] for a in places]
    return charts.heat(names, names, cells, title="Mean cosine between two classes", percent=False, digits=2)


def _plane(plane: Mapping[str, Any]) -> Any:
    groups = [Series(short(label), points) for label, points in plane["points"].items()]
    axes = [
        f"{name} component, {100 * share:.1f} % of variance"
        for name, share in zip(("first", "second"), plane["variance"], strict=True)
    ]
    return charts.scatter(groups, title="Entities on two principal components", x=axes[0], y=axes[1])


def _templates(templates: Mapping[str, Any]) -> list[list[object]]:
    rows: list[list[object]] = []
    for place, label in enumerate(templates["labels"]):
        others = {
            other: cosine
            for other, cosine in enumerate(templates["matrix"][place])
            if other != place and cosine is not None
        }
        nearest = max(others, key=lambda other: (others[other], -other), default=None)
        rows.append(
            [
                name(label),
                decimal(templates["norms"][place], 3),
                decimal(sum(others.values()) / len(others) if others else None, 3),
                "" if nearest is None else name(templates["labels"][nearest]),
                decimal(None if nearest is None else others[nearest], 3),
            ]
        )
    return rows

"""Chart of a gate's curve: share of entities kept against share of spans kept."""

import math
from collections.abc import Mapping
from typing import Any

from spanmarker_core.charts import Series, lines_file

#: Columns of the curve, and their names in the legend.
_COLUMNS = {"recall_of_model": "entities of the ungated model", "recall_of_gold": "gold entities", "f1": "F1"}
#: Points below this recall of the model's entities are not useful choices, and would compress the rest of the chart.
_LEAST_RECALL = 0.8


def curve_svg(gate: Mapping[str, Any]) -> str:
    """Draw a gate's curve as a self-contained SVG.

    Args:
        gate: gate of a `ModelConfig`; its curve may lack any column except `threshold` and `kept`.
    """
    chosen = gate["threshold"]
    points = sorted(
        (
            point
            for point in gate["curve"]
            if point["kept"] > 0 and (point["threshold"] == chosen or point.get("recall_of_model", 1) >= _LEAST_RECALL)
        ),
        key=lambda point: point["kept"],
    )
    series = [
        Series(name, [(point["kept"], point[column]) for point in points if column in point])
        for column, name in _COLUMNS.items()
    ]
    found = [share for each in series for _, share in each.points]
    return lines_file(
        series,
        title="Spans and entities kept by the gate",
        x="share of candidate spans kept",
        y="recall or F1",
        low=(
            min((point["kept"] for point in points), default=0.01) * 0.9,
            min(0.95, math.floor(min(found, default=0.9) * 20) / 20),
        ),
        mark=next((_mark(point) for point in points if point["threshold"] == chosen), None),
    )


def _mark(point: Mapping[str, float]) -> tuple[float, str] | None:
    found = next((point[column] for column in _COLUMNS if column in point), None)
    if found is None:
        return None
    words = f"threshold {point['threshold']:g}: {100 * point['kept']:.3g} % of the spans, {found:.1%} of the entities"
    return point["kept"], words

"""Distribution of the workers' time over the stages."""

from collections.abc import Mapping
from typing import Any

from pipelines.report.run_counts import IN_TURN


def stage_values(seconds: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return the stages with their seconds over all workers and their share of the workers' time.

    The sequential stages of a worker (`wait`, in which the model is idle, `tag`, `check`, `write`) make up its time and
    come first. The other stages run concurrently in a separate thread: their shares show how busy that thread was and
    do not add to the same total.

    Args:
        seconds: seconds by stage.

    >>> stage_values({"tag": 3.0, "wait": 1.0, "read": 2.0})[1]
    {'stage': 'tag', 'seconds': 3.0, 'share': 0.75, 'beside': False}
    """
    whole = sum(seconds.get(stage, 0.0) for stage in IN_TURN)
    in_turn = [stage for stage in IN_TURN if stage in seconds]
    beside = sorted((stage for stage in seconds if stage not in IN_TURN), key=lambda stage: (-seconds[stage], stage))
    return [
        {
            "stage": stage,
            "seconds": round(seconds[stage], 2),
            "share": round(seconds[stage] / whole, 4) if whole else None,
            "beside": stage not in IN_TURN,
        }
        for stage in in_turn + beside
    ]

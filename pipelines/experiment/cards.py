"""Adds the scores of all seeds to the cards of kept bundles."""

import json

from pipelines.experiment.runs import BUNDLE, SCORES, Run
from spanmarker_core.bundle.reader import WEIGHTS
from spanmarker_core.card import read_card_facts, rewrite_card


def write_seeds(runs: list[Run]) -> None:
    """Rewrite the card of each kept bundle, with the scores of every seed of its configuration.

    Args:
        runs: all runs of the experiment.

    Raises:
        CoreError: `bundle.*`.
    """
    groups: dict[str, list[Run]] = {}
    for run in runs:
        if run.own and run.done:
            groups.setdefault(run.name.rpartition("/")[0], []).append(run)
    for members in groups.values():
        facts = {"seeds": [_row(run) for run in sorted(members, key=lambda run: run.seed)]}
        for run in members:
            bundle = run.folder / BUNDLE
            if (bundle / WEIGHTS).exists() and read_card_facts(bundle).get("seeds") != facts["seeds"]:
                rewrite_card(bundle, facts)


def _row(run: Run) -> dict[str, float]:
    scores = json.loads((run.folder / SCORES).read_text(encoding="utf-8"))
    f1 = {f"{split}_f1": scores[split]["micro"]["f1"] for split in ("dev", "test")}
    return {"seed": run.seed, **f1}

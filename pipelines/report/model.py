"""The model of a run, as its card describes it."""

from typing import Any

from spanmarker_core.errors import CoreError


def describe_model(bundle: str) -> dict[str, Any] | None:
    """Return name, labels, languages and F1 of a model as plain values; None if its bundle cannot be read.

    Args:
        bundle: folder of the model.
    """
    # Imported late, so that runs with work to do start sooner.
    from spanmarker_core.bundle.reader import read_info
    from spanmarker_core.card import read_card_facts
    from spanmarker_core.card.facts import split_scores, text
    from spanmarker_core.card.metadata import languages

    try:
        config = read_info(bundle).config
        facts = {**config.facts, **read_card_facts(bundle)}
    except CoreError:
        return None
    scores = split_scores(facts)
    split = next((name for name in ("test", "dev") if name in scores), None)
    return {
        "name": text(facts, "name", 96),
        "labels": [label for label in config.labels if label != config.outside],
        "languages": languages(facts),
        "f1": scores[split]["f1"] if split else None,
        "f1_on": split,
        "f1_by_label": {label: each["f1"] for label, each in scores[split]["per_label"].items()} if split else {},
    }

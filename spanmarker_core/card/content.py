"""Values for the template of a model card."""

import json
import re
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from spanmarker_core.architectures.registry import bundles_tags, options_of
from spanmarker_core.bundle.config import ModelConfig
from spanmarker_core.bundle.reader import GATE_CURVE
from spanmarker_core.card.architectures import kind_of, method_of, papers_of, title_of
from spanmarker_core.card.facts import (
    SPLITS,
    TEXTS,
    Facts,
    log_length,
    mean_and_error,
    number,
    numbers,
    seeds,
    shown_log,
    split_scores,
    summary,
    text,
)
from spanmarker_core.card.metadata import front_matter, languages
from spanmarker_core.card.text import one_line
from spanmarker_core.data.summary import DataSummary, span_of

#: Maximum number of points of the gate's curve and of labels on a card; number of entities below which a label is
#: called rare.
_POINTS, _LABELS, _FEW = 8, 200, 50
#: Columns of the curve and their headings.
_HEADS = {
    "threshold": "threshold",
    "kept": "spans kept",
    "recall_of_model": "of the entities of the ungated model",
    "recall_of_gold": "of gold entities",
    "f1": "F1",
}
#: Maximum length of texts on a card, in characters.
_LIMITS = {"name": 96, "description": 4000, "not_for": 4000}
#: Option of `spanmarker card` -> facts of which one states what the option is for.
_TO_STATE = {
    "--licence-id": ("licence", "licence_id"),
    "--encoder-name": ("encoder_name", "encoder_id"),
    "--training-data": ("training_data",),
    "--data-licence": ("data_licence",),
    "--language": ("language",),
}
_EXAMPLE = "Müller flew to Zürich."
_SETTING, _VALUE = re.compile(r"[a-z][a-z0-9_]{0,40}"), re.compile(r"[\w.+-]{1,60}", re.ASCII)


def content(config: ModelConfig, facts: Facts) -> dict[str, Any]:
    """Return the variables of `card.md.j2`; unknown values are None or empty.

    Args:
        config: the bundle's config.
        facts: all facts of the card.
    """
    texts = {name: text(facts, name, _LIMITS.get(name, 1000)) for name in TEXTS}
    data, splits, settings = summary(facts), split_scores(facts), facts.get("settings")
    settings = _in_order(settings)
    log = shown_log(facts)
    return {
        **texts,
        "facts": facts,
        "config": config,
        "front_matter": front_matter(config, facts),
        "name": title_of(config, facts),
        "encoder": _encoder(config, facts),
        "encoder_licence": text(facts, "encoder_licence", 64),
        "origin": text(facts, "origin", 200),
        "data_name": text(facts, "data_name", 200),
        "to_state": _to_state(facts),
        "licence": texts["licence"] or texts["licence_id"],
        "languages": languages(facts),
        "context": _context(config),
        "kind": kind_of(config),
        "method": method_of(config),
        "papers": papers_of(config),
        "options": {one_line(name, 60): one_line(value, 60) for name, value in config.options.items()},
        "score_threshold": _score_threshold(config),
        "pairing": _pairing(config),
        "gate_reads": _gate_reads(config),
        "gate_in_short": _gate_in_short(config),
        "data": data,
        **_labels(config, data),
        "splits": splits,
        **_by_label(splits),
        **_several_seeds(facts, settings),
        **_gate(config, facts),
        "example": one_line(data.example_sentences[0], 300) if data and data.example_sentences else _EXAMPLE,
        "recipe": _recipe(settings),
        "trained": numbers(facts, "train_sentences", "train_entities"),
        "metrics": _metrics(data),
        "settings": {one_line(name, 60): one_line(value, 200) for name, value in _flat(settings) if value is not None},
        "log": log,
        "log_left_out": log_length(facts) - len(log),
        "environment": _environment(facts),
        "versions": _texts(facts.get("versions")),
    }


def _encoder(config: ModelConfig, facts: Facts) -> str:
    """Describe the encoder: its name or "not stated", its commit, its kind and size."""
    name, commit = text(facts, "encoder_name") or text(facts, "encoder_id"), text(facts, "encoder_revision", 64)
    size = [text(config.encoder, "model_type", 60)]
    if (layers := number(config.encoder, "num_hidden_layers")) is not None:
        size.append(f"{layers:g} layers")
    if (width := number(config.encoder, "hidden_size")) is not None:
        size.append(f"hidden size {width:g}")
    kind = ", ".join(filter(None, size))
    return (name or "not stated") + (f" at commit {commit}" if commit else "") + (f" ({kind})" if kind else "")


def _to_state(facts: Facts) -> list[str]:
    """Return the options of `spanmarker card` for what is not stated."""
    return [option for option, names in _TO_STATE.items() if not any(text(facts, name) for name in names)]


def _labels(config: ModelConfig, data: DataSummary | None) -> dict[str, Any]:
    names = [label for label in config.labels if label != config.outside]
    known = data.labels if data else {}
    rows: list[dict[str, Any]] = []
    for name in names[:_LABELS]:
        label = known.get(name)
        reach = sum(n for length, n in label.lengths.items() if length <= config.entity_max_length) if label else 0
        rows.append(
            {
                "name": one_line(name, 120),
                "examples": [one_line(example, 80) for example in label.examples[:5]] if label else [],
                "count": label.count if label else 0,
                "reachable": reach / label.count if label and label.count else None,
            }
        )
    lengths = data.lengths() if data else {}
    within = sum(count for length, count in lengths.items() if length <= config.entity_max_length)
    return {
        "labels": rows,
        "labels_left_out": len(names) - len(rows),
        "reachable": within / data.entities if data and data.entities else None,
        "rare": [f"{row['name']} ({row['count']})" for row in rows if row["count"] < _FEW] if data else [],
    }


def _by_label(splits: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the labels with their scores by split, sorted by number of gold entities, largest first."""
    tables = {split: scores["per_label"] for split, scores in splits.items() if scores.get("per_label")}
    support = {label: 0 for table in tables.values() for label in table}
    for table in tables.values():
        for label, scores in table.items():
            support[label] += scores["support"]
    names = sorted(support, key=lambda label: (-support[label], label))
    rows = [(one_line(name, 120), {split: table.get(name, {}) for split, table in tables.items()}) for name in names]
    return {"by_label": rows[:_LABELS], "scored_splits": list(tables), "scored_left_out": len(rows[_LABELS:])}


def _several_seeds(facts: Facts, settings: Facts) -> dict[str, Any]:
    runs = seeds(facts)
    splits = [split for split in SPLITS if any(numbers(run, f"{split}_f1") for run in runs)]
    known = {split: mean_and_error(runs, f"{split}_f1") for split in splits}
    means = {split: f"{of[0]:.1%} ± {of[1]:.1%}" if of else "" for split, of in known.items()}
    seed = number(settings, "seed")
    same = [run for run in runs if run["seed"] == seed]
    return {"seeds": runs, "seed_splits": splits, "seed_means": means, "this_seed": seed if same else None}


def _gate(config: ModelConfig, facts: Facts) -> dict[str, Any]:
    """Return the origin of the gate, and its effect at several thresholds."""
    gate = config.gate or {"curve": [], "threshold": 0.0}
    measured: Any = facts.get("gate")
    fitted = None
    if numbers(measured, "sentences", "documents", "held_out_entities", "held_out_passing", "target_recall"):
        share = measured["held_out_passing"] / max(1, measured["held_out_entities"])
        fitted = {**measured, "share": share}
    heads = {name: head for name, head in _HEADS.items() if any(name in point for point in gate["curve"])}
    points = _some(gate["curve"], gate["threshold"])
    return {
        "fitted": fitted,
        "threshold": f"{gate['threshold']:g}",
        "drawing": Markup(GATE_CURVE),
        "curve_heads": list(heads.values()),
        "curve": [[_point_cell(name, point, gate["threshold"]) for name in heads] for point in points],
    }


def _some(curve: list[dict[str, float]], chosen: float) -> list[dict[str, float]]:
    """Return up to `_POINTS` points spread over the curve, and the chosen one."""
    step = max(1, -(-len(curve) // _POINTS))
    return [point for place, point in enumerate(curve) if place % step == 0 or point["threshold"] == chosen]


def _point_cell(name: str, point: dict[str, float], chosen: float) -> Markup:
    if name not in point:
        return Markup()
    shown = f"{point[name]:g}" if name == "threshold" else f"{point[name]:.1%}"
    return Markup(f"**{shown}**" if point["threshold"] == chosen else shown)


def _context(config: ModelConfig) -> str:
    context = config.context
    if context.policy == "sentence":
        return "sentence: each sentence alone"
    if context.policy == "block":
        return (
            "block: consecutive sentences fill a window and are tagged together, with a margin of context around them"
        )
    return f"{context.policy}: previous {_limit(context.max_prev)}, next {_limit(context.max_next)}"


def _limit(limit: int | None) -> str:
    return "as many as fit" if limit is None else str(limit)


def _score_threshold(config: ModelConfig) -> str:
    """Describe the minimum score of an entity."""
    if config.threshold is None:
        all_of = "all entities from the tags" if config.gives_tags else "a span is an entity if its best label is not O"
        return f"none: {all_of}"
    if isinstance(config.threshold, dict):
        return ", ".join(f"{one_line(label, 120)} {value:g}" for label, value in config.threshold.items())
    return f"{config.threshold:g}, {'for entities from tags' if config.gives_tags else 'regardless of the score of O'}"


def _pairing(config: ModelConfig) -> str | None:
    options = options_of(config.architecture, config.options)
    if not options.markers or options.output == "tags":
        return None
    if (attention := getattr(options, "attention", "paired")) != "paired":
        return f"as defined by attention {attention}"
    if config.pair_layers is None:
        return "in all layers"
    return {0: "in no layer", 1: "in the top layer only"}.get(
        config.pair_layers, f"in the top {config.pair_layers} layers only"
    )


def _gate_reads(config: ModelConfig) -> str:
    if (config.gate or {}).get("ends", True):
        return "which words may start an entity and which may end one. Only spans between two such words are classified"
    return "which words may start an entity. Only spans that begin at such a word are classified"


def _gate_in_short(config: ModelConfig) -> str:
    if config.gate is None:
        return "none"
    return "trained with the model; on" if config.gated else "fitted to the finished model; off by default"


def _metrics(data: DataSummary | None) -> dict[str, tuple[str, ...]]:
    if data is None:
        return {}
    counts = {
        "Sentence length": data.sentence_lengths,
        "Entities per sentence": data.sentence_entities,
        "Entity length": data.lengths(),
    }
    found = {name: span_of(values) for name, values in counts.items()}
    return {name: tuple(f"{value:,g}" for value in values) for name, values in found.items() if values}


def _flat(settings: Facts) -> list[tuple[str, object]]:
    """Flatten settings: those of an object get names like `context.policy`, and lists become text."""
    flat: list[tuple[str, object]] = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            flat += [(f"{name}.{inner}", of) for inner, of in _in_order(value).items()]
        elif isinstance(value, list | tuple):
            flat.append((name, ", ".join(map(str, value)) or None))
        else:
            flat.append((name, value))
    return flat


def _recipe(settings: Facts) -> str:
    """Return the settings as lines of a training job in TOML, without those that depend on the machine."""
    values = {name: value for name, value in settings.items() if name not in ("context", "device", "options")}
    context = settings.get("context")
    if isinstance(context, Mapping):
        names = {"policy": "context", "max_prev": "max_prev_context", "max_next": "max_next_context"}
        values |= {name: context.get(theirs) for theirs, name in names.items()}
    if values.get("gate") is not True:
        values = {name: value for name, value in values.items() if not name.startswith("gate_")}
    options = settings.get("options")
    options = options if isinstance(options, Mapping) else {}
    if not bundles_tags(str(values.get("architecture", "")), options):
        values.pop("tag_weight", None)
    lines = _toml(values)
    if given := _toml(options):
        lines += ["", "[options]", *given]
    return "\n".join(lines)


def _toml(values: Facts) -> list[str]:
    return [
        f"{name} = {json.dumps(value)}"
        for name, value in values.items()
        if _SETTING.fullmatch(name) and _is_scalar(value)
    ]


def _is_scalar(value: object) -> bool:
    if isinstance(value, str):
        return _VALUE.fullmatch(value) is not None
    return isinstance(value, bool) or numbers({"value": value}, "value")


def _environment(facts: Facts) -> dict[str, str]:
    lines = {}
    if (steps := number(facts, "steps")) is not None:
        lines["Optimiser steps"] = f"{steps:,}"
    if (seconds := number(facts, "train_seconds")) is not None:
        lines["Training time"] = f"{seconds:,.0f} s"
    if hardware := text(facts, "hardware", 200):
        lines["Hardware"] = hardware
    if (carbon := number(facts, "carbon_kg")) is not None:
        source = text(facts, "carbon_source", 200)
        lines["Carbon emitted"] = f"{carbon:g} kg of CO2 equivalents" + (f" ({source})" if source else "")
    return lines


def _texts(values: object) -> dict[str, str]:
    items = _in_order(values).items()
    return {one_line(name, 60): one_line(value, 60) for name, value in items if isinstance(value, str)}


def _in_order(values: object) -> dict[str, Any]:
    """Return an object sorted by name, as JSON stores it, so that rewriting a card does not change it."""
    items = values.items() if isinstance(values, Mapping) else ()
    return dict(sorted(((str(name), value) for name, value in items), key=lambda item: item[0]))

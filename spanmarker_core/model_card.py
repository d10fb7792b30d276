"""The model card of a bundle: what it is, what it was trained on, how good it is, what it is not for."""

import json
import re
from typing import Any

from spanmarker_core.bundle import ModelConfig
from spanmarker_core.gate_curve import curve_svg

#: Drawing of the gate's curve, beside the card.
GATE_DRAWING = "gate.svg"

#: Points of the gate's curve that the card shows.
_POINTS = 8
#: Columns of the curve and their heads in the card.
_HEADS = {
    "threshold": "threshold",
    "kept": "spans kept",
    "recall_of_model": "of the ungated model's entities",
    "recall_of_gold": "of gold entities",
    "f1": "F1",
}

#: What a YAML value may hold to stand there as it is.
_PLAIN_YAML = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*")
#: Starts of a line that would make it a heading, a list, a quotation, a rule or a fence.
_BLOCK_START = re.compile(r"(?=#|>|[-+*] |---|===|~~~|```)")


def model_card(config: ModelConfig) -> str:
    """Return the text of README.md from a bundle's config and its `facts`.

    Facts are anybody's: what is not of the type that the card tells is left out, and no text breaks the page.
    """
    facts = config.facts
    labels = [label for label in config.labels if label != config.outside]
    lines = [
        "---",
        "library_name: spanmarker-pipelines",
        "pipeline_tag: token-classification",
        "tags: [ner, named-entity-recognition, span-marker]",
        f"license: {_yaml(facts.get('licence_id'))}",
        "---",
        "",
        f"# {_said(facts, 'name', 'A span-marker model')}",
        "",
        _paragraph(_said(facts, "description")),
        "",
        "| | |",
        "| --- | --- |",
        f"| architecture | {config.architecture} |",
        f"| encoder | {_said(facts, 'encoder_name')} |",
        f"| training data | {_said(facts, 'training_data')} |",
        f"| licence | {_said(facts, 'licence')} |",
        f"| longest entity | {config.entity_max_length} words |",
        f"| window | {config.max_tokens} tokens; longer sentences are windowed, never truncated |",
        f"| context | {_context(config)} |",
        f"| words of raw text | {config.splitter} |",
        f"| decoder | {config.decoder} |",
        f"| markers of a span see each other | {_pairing(config)} |",
        f"| gate | {_gate_in_short(config)} |",
        "",
        *_scores(facts),
        *_gate(config),
        "## Use",
        "",
        "```python",
        "from spanmarker_core import load",
        "",
        'model = load("path/to/this/folder")',
        'model.tag_text(["Müller flew to Zürich."])',
        "```",
        "",
        f"**Not for:** {_said(facts, 'not_for')}",
        "",
        f"## Labels ({len(labels)})",
        "",
        ", ".join(f"`{label}`" for label in labels),
        "",
        *_training(facts),
    ]
    return "\n".join(lines)


def card_files(config: ModelConfig) -> dict[str, str]:
    """Return the texts of the files that the card refers to, by name; see `saving.save_bundle`."""
    return {} if config.gate is None else {GATE_DRAWING: curve_svg(config.gate)}


def _plain(value: object) -> str:
    """Return a fact as one line that is neither a table's border nor HTML.

    >>> _plain("a | b\\n<c>")
    'a \\\\| b \\\\<c>'
    """
    text = str(value).encode("utf-8", "replace").decode()  # half a surrogate pair can't be written
    return re.sub(r"(\\*)([|<])", r"\1\1\\\2", " ".join(text.split()))


def _said(facts: dict[str, Any], name: str, otherwise: str = "not stated") -> str:
    return _plain(facts[name]) if facts.get(name) is not None else otherwise


def _paragraph(text: str) -> str:
    return f"\\{text}" if _BLOCK_START.match(text) else text


def _yaml(value: object) -> str:
    text = "unknown" if value is None else " ".join(str(value).encode("utf-8", "replace").decode().split())
    return text if _PLAIN_YAML.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _numbers(facts: object, *names: str) -> bool:
    """Tell whether these facts are there and are numbers that can be formatted, whole or not.

    >>> _numbers({"f1": 0.5}, "f1"), _numbers({"f1": "0.5"}, "f1"), _numbers("f1", "f1")
    (True, False, False)
    """
    return isinstance(facts, dict) and all(
        type(value := facts.get(name, "")) in (int, float) and abs(value) < 1e15 for name in names
    )


def _pairing(config: ModelConfig) -> str:
    if config.pair_layers is None:
        return "in all layers"
    return {0: "in no layer", 1: "in the top layer only"}.get(
        config.pair_layers, f"in the top {config.pair_layers} layers only"
    )


def _gate_in_short(config: ModelConfig) -> str:
    if config.gate is None:
        return "none"
    return "trained with the model; on" if config.gated else "fitted to the finished model; off unless asked for"


def _gate(config: ModelConfig) -> list[str]:
    """Return what the gate is, where it came from, and what it keeps at some thresholds."""
    gate = config.gate
    if gate is None:
        return []
    lines = ["## Gate", "", f"{_WHAT_A_GATE_IS} {_JOINT if config.gated else _FITTED}", ""]
    measured: Any = config.facts.get("gate")
    if _numbers(measured, "sentences", "documents", "held_out_entities", "held_out_passing", "target_recall"):
        share = measured["held_out_passing"] / max(1, measured["held_out_entities"])
        lines += [
            f"It was made from {measured['sentences']:,} sentences of {measured['documents']:,} documents without "
            f"labels. At the threshold {gate['threshold']:g} it keeps {measured['held_out_passing']:,} of the "
            f"{measured['held_out_entities']:,} entities ({share:.2%}) that the model finds without it in documents "
            f"that were held out; the target was {measured['target_recall']:.2%}. On other text it may keep fewer.",
            "",
        ]
    if not gate["curve"]:
        return lines
    heads = {name: head for name, head in _HEADS.items() if any(name in point for point in gate["curve"])}
    rows = [
        "| " + " | ".join(_point_cell(name, point, gate["threshold"]) for name in heads) + " |"
        for point in _some(gate["curve"], gate["threshold"])
    ]
    head = [f"| {' | '.join(heads.values())} |", "|" + " --: |" * len(heads)]
    return [*lines, f"![What the gate keeps at each threshold]({GATE_DRAWING})", "", *head, *rows, ""]


_WHAT_A_GATE_IS = (
    "A gate reads the encoded text and says which words may start an entity and which may end one. Only spans between "
    "two such words are classified, which is most of the model's speed."
)
_JOINT = (
    "It was trained together with the model and belongs to it: the scores on this card are with the gate. Without it "
    "(`--gate off`) the model scores spans of a kind that it hardly saw in training: slower, and maybe worse."
)
_FITTED = (
    "It was fitted to the finished model, which did not change: without it the output is as before, and that is the "
    "default. With `--gate on` some entities are lost."
)


def _some(curve: list[dict[str, float]], chosen: float) -> list[dict[str, float]]:
    """Return at most `_POINTS` points spread over the curve, and the chosen one."""
    step = max(1, -(-len(curve) // _POINTS))
    return [point for place, point in enumerate(curve) if place % step == 0 or point["threshold"] == chosen]


def _point_cell(name: str, point: dict[str, float], chosen: float) -> str:
    if name not in point:
        return ""
    text = f"{point[name]:g}" if name == "threshold" else f"{point[name]:.1%}"
    return f"**{text}**" if point["threshold"] == chosen else text


def _context(config: ModelConfig) -> str:
    context = config.context
    if context.policy == "sentence":
        return "sentence: each sentence alone"
    if context.policy == "block":
        return "block: sentences fill a window and are tagged together, with a margin of context around them"
    return f"{context.policy}: previous {_limit(context.max_prev)}, next {_limit(context.max_next)}"


def _limit(limit: int | None) -> str:
    return "as many as fit" if limit is None else str(limit)


def _scores(facts: dict[str, Any]) -> list[str]:
    rows = [
        f"| {split} | {facts[f'{split}_sentences']} | {facts[f'{split}_precision']:.1%} | "
        f"{facts[f'{split}_recall']:.1%} | {facts[f'{split}_f1']:.1%} |"
        for split in ("dev", "test")
        if _numbers(facts, *(f"{split}_{name}" for name in ("sentences", "precision", "recall", "f1")))
    ]
    if not rows:
        return []
    head = ["| split | sentences | precision | recall | F1 |", "| --- | --- | --- | --- | --- |"]
    note = "Micro averages over exact spans and labels; recall counts every gold entity, also those too long to reach."
    return ["## Scores", "", *head, *rows, "", note, ""]


def _training(facts: dict[str, Any]) -> list[str]:
    settings = facts.get("settings")
    if not isinstance(settings, dict) or not _numbers(facts, "train_sentences", "train_entities", "steps"):
        return []
    rows = [f"- {_plain(name)}: {_plain(value)}" for name, value in settings.items()]
    seconds = f", {facts['train_seconds']:.0f} s" if _numbers(facts, "train_seconds") else ""
    sentences = f"{facts['train_sentences']} sentences with {facts['train_entities']} entities"
    return ["## Training", "", f"{sentences}, {facts['steps']} steps{seconds}.", "", *rows, ""]

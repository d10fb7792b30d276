"""The model card of a bundle: what it is, what it was trained on, how good it is, what it is not for."""

from typing import Any

from spanmarker_core.bundle import ModelConfig

_TEXTS = ("name", "description", "licence", "training_data", "encoder_name", "not_for")


def model_card(config: ModelConfig) -> str:
    """Return the text of README.md from a bundle's config and its `facts`."""
    facts = config.facts
    unknown = dict.fromkeys(_TEXTS, "not stated")
    say: dict[str, Any] = {**unknown, **facts}
    labels = [label for label in config.labels if label != config.outside]
    lines = [
        "---",
        "library_name: spanmarker-pipelines",
        "pipeline_tag: token-classification",
        "tags: [ner, named-entity-recognition, span-marker]",
        f"license: {facts.get('licence_id', 'unknown')}",
        "---",
        "",
        f"# {facts.get('name', 'A span-marker model')}",
        "",
        say["description"],
        "",
        "| | |",
        "| --- | --- |",
        f"| architecture | {config.architecture} |",
        f"| encoder | {say['encoder_name']} |",
        f"| training data | {say['training_data']} |",
        f"| licence | {say['licence']} |",
        f"| longest entity | {config.entity_max_length} words |",
        f"| window | {config.max_tokens} tokens; longer sentences are windowed, never truncated |",
        f"| context | {_context(config)} |",
        f"| words of raw text | {config.splitter} |",
        f"| decoder | {config.decoder} |",
        "",
        *_scores(facts),
        "## Use",
        "",
        "```python",
        "from spanmarker_core import load",
        "",
        'model = load("path/to/this/folder")',
        'model.tag_text(["Müller flew to Zürich."])',
        "```",
        "",
        f"**Not for:** {say['not_for']}",
        "",
        f"## Labels ({len(labels)})",
        "",
        ", ".join(f"`{label}`" for label in labels),
        "",
        *_training(facts),
    ]
    return "\n".join(lines)


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
        if f"{split}_f1" in facts
    ]
    if not rows:
        return []
    head = ["| split | sentences | precision | recall | F1 |", "| --- | --- | --- | --- | --- |"]
    note = "Micro averages over exact spans and labels; recall counts every gold entity, also those too long to reach."
    return ["## Scores", "", *head, *rows, "", note, ""]


def _training(facts: dict[str, Any]) -> list[str]:
    if "settings" not in facts:
        return []
    rows = [f"- {name}: {value}" for name, value in facts["settings"].items()]
    counts = (
        f"{facts['train_sentences']} sentences with {facts['train_entities']} entities, "
        f"{facts['steps']} steps, {facts['train_seconds']:.0f} s."
    )
    return ["## Training", "", counts, "", *rows, ""]

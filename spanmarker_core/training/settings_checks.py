"""Checks for conflicting or unused training settings; all problems are reported at once, before any work."""

from collections.abc import Mapping
from typing import Any

from spanmarker_core.architectures.options import Options
from spanmarker_core.architectures.registry import options_of
from spanmarker_core.errors import UnusableError


def contradictions(architecture: str, options: Mapping[str, Any], settings: Any) -> list[str]:
    """Return a message for each setting that conflicts with another or has no effect.

    Args:
        architecture: a name in `ARCHITECTURES`.
        options: options of the architecture; missing ones have their defaults.
        settings: the remaining settings, with the attributes of `TrainingSettings`.
    """
    problems = []
    if settings.gate and settings.negatives is not None:
        problems.append("negatives: the gate chooses the spans to train on: leave one of them out")
    try:
        told = options_of(architecture, options)
    except UnusableError as error:
        return [str(error), *problems]
    if settings.encoder_layers is not None and (problem := told.encoder_problem(settings.encoder_layers)):
        problems.append(problem)
    if settings.gate and told.gate_problem:
        problems.append(f"gate: {told.gate_problem}: leave it out, or other options")
    if told.joint and settings.negatives is not None:
        problems.append("negatives: spans see each other, so they can't be learned with some of the others left out")
    if settings.pair_layers is not None and (problem := told.pairing_problem(settings.pair_layers)):
        problems.append(f"pair_layers: {problem}: leave it out")
    return problems + [f"{name}: {reason}: leave it out" for name, reason in _unread(told, settings)]


def _unread(told: Options, settings: Any) -> list[tuple[str, str]]:
    found = []
    if not told.spans:
        names = ("negatives", "boundary_smoothing", "gradient_checkpointing")
        found += [(name, "no spans are learned") for name in names if getattr(settings, name)]
    if told.output == "tags" and settings.decoder != "flat.v1":
        found.append(("decoder", "entities come from tags, which neither nest nor cross"))
    return found

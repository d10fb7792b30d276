"""Checks for conflicting or unused training settings; all problems are reported at once, before any work."""

from typing import TYPE_CHECKING

from spanmarker_core.architectures.options import Options
from spanmarker_core.errors import UnusableError

if TYPE_CHECKING:
    from spanmarker_core.training.settings import TrainingFields


def contradictions(settings: "TrainingFields") -> list[str]:
    """Return a message for each setting that conflicts with another or has no effect.

    Args:
        settings: the settings, each valid in itself.
    """
    given = settings.model_fields_set
    problems = []
    if settings.gate and settings.negatives is not None:
        problems.append("`gate` and `negatives` both select the spans to train on: remove one of them")
    try:
        problems += _against_architecture(settings, settings.architecture_options)
    except UnusableError as error:
        problems.insert(0, f"`options`: {error}")
    if not settings.gate and (idle := sorted({"gate_ends", "gate_weight", "gate_share"} & given)):
        names = ", ".join(f"`{name}`" for name in idle)
        problems.append(f"{names}: only with `gate`: set it, too, or remove {names}")
    if {"batch_size", "batch_tokens"} <= given:
        problems.append("`batch_size` and `batch_tokens` both set the size of a step: remove one of them")
    return problems


def _against_architecture(settings: "TrainingFields", options: Options) -> list[str]:
    problems = []
    if settings.encoder_layers is not None and (problem := options.encoder_problem(settings.encoder_layers)):
        problems.append(problem)
    if settings.gate and options.gate_problem:
        problems.append(f"`gate`: {options.gate_problem}: remove it, or change the options")
    if options.joint and settings.negatives is not None:
        problems.append("`negatives`: spans see each other, so all of them are needed for training: remove it")
    if settings.pair_layers is not None and (problem := options.pairing_problem(settings.pair_layers)):
        problems.append(f"`pair_layers`: {problem}: remove it")
    if not options.spans:
        names = ("negatives", "boundary_smoothing", "gradient_checkpointing")
        problems += [
            f"`{name}`: this model has no spans to train: remove it" for name in names if getattr(settings, name)
        ]
    if options.output == "tags" and settings.decoder != "flat.v1":
        problems.append("`decoder`: entities come from tags, which cannot nest or cross: remove it")
    if "tag_weight" in settings.model_fields_set and not (options.spans and options.tags is not None):
        problems.append("`tag_weight`: the model has no tagging head bundled with spans: remove it")
    return problems

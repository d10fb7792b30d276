"""Values of the option `--threshold`: one score for all labels, scores of single labels, or both."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.errors import PipelineError
from spanmarker_core.bundle.config import ModelConfig
from spanmarker_core.spans.decoding import TaskThreshold
from spanmarker_core.text.similar import suggest


def parsed(value: Any) -> Any:
    """Return a threshold in one form: a number, or the list of its parts, such as ["0.3", "PER=0.5"].

    >>> parsed("0.3"), parsed(["PER=0.50", "0.3"]), parsed({"PER": 0.5})
    (0.3, ['0.3', 'PER=0.5'], ['PER=0.5'])

    Args:
        value: a number; a string of the form SCORE or LABEL=SCORE; a list of these; or a mapping from label to score.

    Raises:
        ValueError: a score is not a number from 0 to 1, or there are two for one label or for all.
    """
    if value is None:
        return None
    if isinstance(value, Mapping):
        value = [f"{label}={score}" for label, score in value.items()]
    scores: dict[str, float] = {}
    for part in value if isinstance(value, list) else [value]:
        label, equals, score = part.rpartition("=") if isinstance(part, str) else ("", "", part)
        if equals and not label:
            raise ValueError(f"{part!r} has no label; pass LABEL=SCORE, such as PER=0.5, or a number from 0 to 1")
        if label in scores:
            raise ValueError(f"two scores for {label or 'all labels'}")
        try:
            scores[label] = _score(score)
        except ValueError as error:
            raise ValueError(f"{label}: {error}" if label else str(error)) from None
    rest = scores.pop("", None)
    if not scores:
        return rest
    parts = [f"{label}={score}" for label, score in sorted(scores.items())]
    return parts if rest is None else [str(rest), *parts]


def _score(given: Any) -> float:
    try:
        score = float("x" if isinstance(given, bool) else given)
    except (TypeError, ValueError):
        raise ValueError(f"{given!r} is not a number from 0 to 1") from None
    if not 0 <= score <= 1:
        likely = f"; did you mean {score / 100:g}?" if 10 <= score <= 100 else ""
        raise ValueError(f"{given} is not a number from 0 to 1{likely}")
    return score


def for_model(threshold: float | Sequence[str] | None, config: ModelConfig) -> TaskThreshold:
    """Return the threshold of each label of a model.

    Args:
        threshold: a threshold as `parsed` returns it.
        config: the config of the model, whose threshold applies to labels without one.

    Raises:
        PipelineError: `job.unknown_label`.
    """
    if threshold is None or isinstance(threshold, float | int):
        return threshold
    rest, scores = _parts(threshold)
    for label in scores:
        known_label(label, config, "--threshold")
    stored = config.threshold if rest is None else rest
    # Labels that a stored mapping leaves out are never found.
    by_label = dict(stored) if isinstance(stored, Mapping) else dict.fromkeys(config.labels, stored)
    by_label |= scores
    return tuple((label, by_label[label]) for label in config.labels if label in by_label and label != config.outside)


def _parts(threshold: Sequence[str]) -> tuple[float | None, dict[str, float]]:
    """Return the score of all labels, if there is one, and those of single labels."""
    rest, scores = None, {}
    for part in threshold:
        label, equals, score = part.rpartition("=")
        if equals:
            scores[label] = float(score)
        else:
            rest = float(score)
    return rest, scores


def described(threshold: float | Sequence[str] | None, config: ModelConfig) -> str:
    """Return a threshold as the identity of a job records it.

    Args:
        threshold: the threshold as given.
        config: the config of the model.
    """
    if threshold is None or isinstance(threshold, float | int):
        return str(config.threshold if threshold is None else threshold)
    rest, scores = _parts(threshold)
    labels = [f"{label}={score}" for label, score in sorted(scores.items())]
    return ", ".join([str(config.threshold if rest is None else rest), *labels])


def known_label(label: str, config: ModelConfig, option: str) -> str:
    """Return a label after checking that a model has it.

    Args:
        label: the label.
        config: the config of the model.
        option: the option that names the label.

    Raises:
        PipelineError: `job.unknown_label`, with the most similar labels.
    """
    labels = [each for each in config.labels if each != config.outside]
    if label not in labels:
        raise PipelineError("job.unknown_label", option=option, label=label, suggestion=suggest(label, labels))
    return label

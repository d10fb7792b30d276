"""Training of span models on annotated sentences, in one or more processes."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spanmarker_core.training.dataset import Gold, SentenceWindows, TrainingWindows
    from spanmarker_core.training.export import TrainingResult
    from spanmarker_core.training.run_training import search_trainer, train
    from spanmarker_core.training.settings import TrainingSettings
    from spanmarker_core.training.trainer import SpanTrainer

__all__ = [
    "Gold",
    "SentenceWindows",
    "SpanTrainer",
    "TrainingResult",
    "TrainingSettings",
    "TrainingWindows",
    "search_trainer",
    "train",
]

_HOMES = {
    "Gold": "dataset",
    "SentenceWindows": "dataset",
    "SpanTrainer": "trainer",
    "TrainingResult": "export",
    "TrainingSettings": "settings",
    "TrainingWindows": "dataset",
    "search_trainer": "run_training",
    "train": "run_training",
}


def __getattr__(name: str) -> object:
    """Import a name when it is first used, so that settings can be checked without importing torch."""
    if name in _HOMES:
        return getattr(import_module(f"spanmarker_core.training.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

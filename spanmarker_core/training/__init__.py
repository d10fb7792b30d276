"""Training of span models on annotated sentences, by one process or several."""

from spanmarker_core.training.finish import TrainingResult
from spanmarker_core.training.run import search_trainer, train
from spanmarker_core.training.settings import TrainingSettings
from spanmarker_core.training.source import Gold, SentenceWindows, TrainingWindows
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

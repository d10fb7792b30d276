"""Training of span models on annotated sentences, in one process."""

from spanmarker_core.training.run import TrainingResult, train
from spanmarker_core.training.settings import TrainingSettings

__all__ = ["TrainingResult", "TrainingSettings", "train"]

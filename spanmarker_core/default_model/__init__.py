"""The model that is bundled with the package: its files and their location. Other models don't belong here."""

from pathlib import Path


def bundled_model_path() -> Path:
    """Return the folder of the bundled model."""
    return Path(__file__).parent

"""The model that comes with the package: its files, and where they are."""

from pathlib import Path


def bundled_model_path() -> Path:
    """Return the folder of the bundled model."""
    return Path(__file__).parent

"""The model that comes with the package."""

from pathlib import Path

import spanmarker_core


def bundled_model_path() -> Path:
    """Return the folder of the bundled model."""
    return Path(spanmarker_core.__file__).parent / "bundled"

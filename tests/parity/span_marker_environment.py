"""A virtual environment of its own for `span_marker` 1.8.1, which needs transformers < 5 where we need 5."""

import subprocess
import venv
from pathlib import Path

REQUIREMENTS = Path(__file__).with_name("requirements-span-marker.txt")
ENVIRONMENT = Path(__file__).resolve().parents[2] / ".venv-span-marker"


def python_with_span_marker(folder: Path = ENVIRONMENT) -> Path:
    """The interpreter of the environment in `folder`, made first if it is missing or has other pins."""
    python = folder / "bin" / "python"
    installed = folder / "installed-requirements.txt"  # a copy of the pins, written when pip has succeeded
    if not installed.exists() or installed.read_text() != REQUIREMENTS.read_text():
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", REQUIREMENTS], check=True)
        installed.write_text(REQUIREMENTS.read_text())
    return python

"""Description of the environment of a measurement."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def machine(device: str) -> dict[str, Any]:
    """Return a description of the machine, the date and the source revision.

    Args:
        device: name of the torch device.
    """
    facts = {
        "date": datetime.now(UTC).date().isoformat(),
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "commit": _git("rev-parse", "--short=12", "HEAD"),
        "changed_since_commit": bool(_git("status", "--porcelain", "--untracked-files=no")),
    }
    if device != "cpu":
        import torch

        facts["gpu"] = torch.cuda.get_device_name(device)
    return facts


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


def _git(*arguments: str) -> str | None:
    try:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None

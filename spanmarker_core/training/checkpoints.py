"""The folder beside a bundle that holds the checkpoints of its training, from which the same command resumes.

<output>.training/
    lock                    held by the training process, so that only one process can train
    run.json                identity of the run: data and settings; another run does not resume from here
    checkpoint-<step>/      written by transformers' Trainer; contains `whole` once it is complete
    bundle/                 the bundle while it is written

The Trainer's own rotation of checkpoints (`save_total_limit`) counts checkpoints that a crash left incomplete, and
knows neither whose folder it is nor whether another process trains there.
"""

import errno
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from filelock import lock_descriptor
from safetensors import safe_open
from torch import nn

from spanmarker_core.bundle.files import PART_ENDING, publish_text
from spanmarker_core.errors import CoreError
from spanmarker_core.text.shortened import shortened

_LOCK, RUN, _WHOLE, _BUNDLE = "lock", "run.json", "whole", "bundle"


class TrainingFolder:
    """Checkpoints of one run, as a context manager that releases the folder at the end.

    Args:
        output: the bundle's folder.
    """

    def __init__(self, output: str | Path) -> None:
        output = Path(output).absolute()
        self.output = output
        self.path = output.with_name(f"{output.name}.training")
        self._lock: IO[str] | None = None

    def __enter__(self) -> "TrainingFolder":
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def open(self, identity: Mapping[str, Any]) -> Path | None:
        """Start a run, or find the last checkpoint of an interrupted one.

        Args:
            identity: identity of the run, as JSON values.

        Returns:
            The last complete checkpoint; None if there is none.

        Raises:
            CoreError: `training.changed`, `training.folder_not_writable`, `training.in_use`.
        """
        text = json.dumps(identity, indent=1, sort_keys=True, ensure_ascii=False)
        run = self.path / RUN
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._take()
            if run.exists():
                differences = _differences(json.loads(run.read_text(encoding="utf-8")), json.loads(text))
                if differences:
                    raise CoreError("training.changed", path=self.path, differences="\n".join(differences))
            else:
                publish_text(run, text)
            shutil.rmtree(self.path / _BUNDLE, ignore_errors=True)
        except (OSError, ValueError) as error:
            raise CoreError("training.folder_not_writable", path=self.path, reason=error) from error
        return self._last()

    def last_step(self) -> int | None:
        """Return the step of the last complete checkpoint; None if there is none."""
        last = self._last()
        return None if last is None else _step(last)

    def _last(self) -> Path | None:
        whole = [path for path in self.path.glob("checkpoint-*") if (path / _WHOLE).exists()]
        return max(whole, key=_step, default=None)

    def is_foreign(self) -> bool:
        """Return whether the folder exists and was not created by a training run; `publish` would remove it."""
        if not self.path.exists():
            return False
        try:
            return b'"dev data"' not in (self.path / RUN).read_bytes()
        except FileNotFoundError:
            # A training that has just started or was interrupted there.
            return any(each.name not in (_LOCK, f"{RUN}{PART_ENDING}") for each in self.path.iterdir())
        except OSError:
            return True

    def _take(self) -> None:
        """Hold the lock until this process ends for any reason: a killed launcher leaves its processes running."""
        self._lock = (self.path / _LOCK).open("a")
        try:
            locked = lock_descriptor(self._lock.fileno(), blocking=False)
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):  # a file system without locks
                raise
        else:
            if not locked:
                raise CoreError("training.in_use", path=self.path)

    def keep(self, step: int, best_step: int | None, seconds: float) -> None:
        """Mark a checkpoint as complete, and remove all others except the best.

        Args:
            step: step of the checkpoint.
            best_step: step of the best checkpoint; None if there is none yet.
            seconds: training time of the run up to the checkpoint.
        """
        checkpoint = self.path / f"checkpoint-{step}"
        publish_text(checkpoint / _WHOLE, f"{seconds:.3f}")
        for path in self.path.glob("checkpoint-*"):
            if _step(path) not in (step, best_step):
                shutil.rmtree(path, ignore_errors=True)

    @property
    def bundle(self) -> Path:
        """Folder in which the bundle is written before it is published."""
        return self.path / _BUNDLE

    def publish(self) -> None:
        """Move the finished bundle to the output and remove this folder.

        Raises:
            CoreError: `bundle.output_not_writable`.
        """
        try:
            self.output.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.replace(self.bundle, self.output)
            except OSError:  # The output is a mount point, which cannot be replaced.
                shutil.copytree(self.bundle, self.output, dirs_exist_ok=True)
        except OSError as error:
            raise CoreError("bundle.output_not_writable", path=self.output, reason=error) from error
        shutil.rmtree(self.path, ignore_errors=True)


def seconds_of(checkpoint: Path) -> float:
    """Return the training time of a run up to a complete checkpoint, in seconds.

    Args:
        checkpoint: folder of the checkpoint.
    """
    return float((checkpoint / _WHOLE).read_text(encoding="utf-8"))


def step_of(checkpoint: Path, model: nn.Module) -> int:
    """Return the step after which a checkpoint was written, after checking its weights against a model.

    Args:
        checkpoint: folder of the checkpoint.
        model: the model to resume, whose weights must have the same names and shapes.

    Raises:
        CoreError: `training.bad_checkpoint`.
    """
    try:
        step = json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))["global_step"]
        with safe_open(checkpoint / "model.safetensors", "pt") as weights:
            found = {name: weights.get_slice(name).get_shape() for name in weights.keys()}  # noqa: SIM118
    except Exception as error:  # OSError, ValueError, KeyError, SafetensorError
        raise CoreError("training.bad_checkpoint", path=checkpoint, problem=f"cannot read it ({error})") from error
    expected = {name: list(weight.shape) for name, weight in model.state_dict().items()}
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            problem = (
                f"it belongs to another model: {name} has shape {found.get(name)}, but the model expects "
                f"{expected.get(name)}"
            )
            raise CoreError("training.bad_checkpoint", path=checkpoint, problem=problem)
    return int(step)


def _step(checkpoint: Path) -> int:
    number = checkpoint.name.removeprefix("checkpoint-")
    return int(number) if number.isdecimal() else -1


def _differences(was: object, now: object, name: str = "") -> list[str]:
    """Describe the differences between two JSON values, one per line."""
    if isinstance(was, dict) and isinstance(now, dict):
        return [
            line
            for key in sorted(was.keys() | now.keys())
            for line in _differences(was.get(key), now.get(key), f"{name}.{key}" if name else key)
        ]
    return [] if was == now else [f"  {name}: {_shown(was)} in the checkpoint, {_shown(now)} in this run"]


def _shown(value: object) -> str:
    return shortened(json.dumps(value, ensure_ascii=False), 200)

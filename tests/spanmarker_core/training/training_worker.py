"""Trains on the sentences of `tests.support.training`, as one process of a run.

    python -m tests.spanmarker_core.training.training_worker JSON

The JSON: a list of runs, one after the other, each with "encoder", "output" and "settings"; "log", a file for the loss
of each step; "seconds" to wait after each; "hold", the step after whose loss it waits to be killed; "poison", the
process that loses a weight before step 4.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from spanmarker_core.errors import CoreError
from spanmarker_core.training import TrainingSettings, train
from spanmarker_core.training.distributed import leave, rank
from tests.support.training import sentences


class EachStep(TrainerCallback):
    """Logs every step, and takes its time for it."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.log, self.seconds = Path(job["log"]), job.get("seconds", 0)
        self.hold, self.poison = job.get("hold"), job.get("poison")

    def on_step_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        if state.global_step == 3 and rank() == self.poison:
            model.network.classifier.weight.data.fill_(float("nan"))

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        control.should_log = True

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if state.is_world_process_zero and "loss" in logs:
            with self.log.open("a") as file:
                file.write(json.dumps({"step": state.global_step, "loss": logs["loss"]}) + "\n")
        time.sleep(3600 if state.global_step == self.hold else self.seconds)


def say(line: str) -> None:
    """Print a line in one piece: `print` writes its end apart, and another process's line may come between."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    torch.set_num_threads(1)
    data = sentences()
    for job in json.loads(sys.argv[1]):
        try:
            train(
                data,
                data[:20],
                job["encoder"],
                job["output"],
                TrainingSettings(entity_max_length=3, max_tokens=48, device="cpu", **job["settings"]),
                callbacks=[EachStep(job)],
                log=say,
            )
        except CoreError as error:
            say(f"process {rank()}: {json.dumps([error.code, error.values], default=str)}")
    leave()


if __name__ == "__main__":
    main()

"""The parent's side of a worker: starts `workers/serve.py` and sends it requests."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

SERVE = Path(__file__).with_name("workers") / "serve.py"
ROOT = Path(__file__).resolve().parents[1]


class WorkerFailed(Exception):
    """A worker raised an error, which is included with its traceback, or ended."""


class Worker:
    """A process with one contestant. Close it after use, or use it as a context manager.

    Args:
        python: interpreter of its environment.
        module: name of a module in `workers/`.
        options: options of the contestant, including `threads`, `device`, `dtype` and `path`.
    """

    def __init__(self, python: Path, module: str, options: dict[str, Any]) -> None:
        threads = str(options["threads"])
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": threads,
            "MKL_NUM_THREADS": threads,
            "RAYON_NUM_THREADS": threads,
            "TOKENIZERS_PARALLELISM": "true",
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_VERBOSITY": "error",
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        }
        self.module = module
        self.process = subprocess.Popen(
            [str(python), str(SERVE), module, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            encoding="utf-8",
        )

    def ask(self, do: str, **arguments: Any) -> Any:
        """Send a request and wait for its answer.

        Args:
            do: name of the request.
            arguments: arguments of the request.

        Raises:
            WorkerFailed: the worker failed; includes its traceback.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise WorkerFailed(f"the worker {self.module} has ended")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerFailed(f"{self.module}, {do}:\n{answer['error']}")
        return answer["result"]

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

"""Server process for one contestant: loads it once and runs it on request. Requests and answers are JSON lines.

    python serve.py MODULE '{"path": ..., "threads": 2, ...}'

It also runs in the peers' environment, so it does not import this library. MODULE is a file in the same folder with a
class `Contestant(options)` that has

    prepare(key, path, **settings)   read a workload and store it under a key
    tune(key) -> dict                choose its own settings for it (batch size, kind of attention)
    run(key) -> list | None          tag it; for each sentence a list of entities [start, end, label, score]
    versions() -> dict
    count(key) -> dict               only if it has markers to count
"""

import gc
import importlib
import json
import os
import sys
import time
import traceback
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count
from transformers.utils import logging

#: Operations that torch counts for products with a layer's weights; all others are attention.
_LINEAR = ("aten.addmm", "aten.mm")
_CPU_ATTENTION = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu


def _count_attention(query, key, value, *_, **__):
    """Count the one attention kernel that torch's counter does not support. The arguments are shapes."""
    return sdpa_flop_count(query, key, value)


class Service:
    """The requests, one per method.

    Args:
        contestant: the contestant.
        device: name of the torch device.
    """

    def __init__(self, contestant, device: str) -> None:
        self.contestant = contestant
        self.device = device

    def facts(self):
        """Return the versions of the libraries in use."""
        return {"torch": torch.__version__, **self.contestant.versions()}

    def prepare(self, key, path, **settings):
        """Read a workload and store it under a key.

        Args:
            key: key of the workload.
            path: path of the workload file.
            settings: settings of the contestant.
        """
        self.contestant.prepare(key, path, **settings)

    def tune(self, key):
        """Choose the contestant's own settings for a workload and return them.

        Args:
            key: key of the workload.
        """
        return self.contestant.tune(key)

    def first(self, key):
        """Run once before the timing and return the entities and the measured multiply-accumulates.

        Args:
            key: key of the workload.
        """
        with FlopCounterMode(display=False, custom_mapping={_CPU_ATTENTION: _count_attention}) as counter:
            entities = self.contestant.run(key)
        operations = {str(name): count // 2 for name, count in counter.get_flop_counts()["Global"].items()}
        linear = sum(operations.get(name, 0) for name in _LINEAR)
        more = self.contestant.count(key) if hasattr(self.contestant, "count") else {}
        return {"entities": entities, "linear": linear, "attention": sum(operations.values()) - linear, **more}

    def seconds(self, key):
        """Return the wall time of one run in seconds.

        Args:
            key: key of the workload.
        """
        gc.collect()
        self._finish()
        began = time.perf_counter()
        self.contestant.run(key)
        self._finish()
        return time.perf_counter() - began

    def _finish(self) -> None:
        if self.device != "cpu":
            torch.cuda.synchronize()


def main() -> None:
    # Output printed by libraries must not mix with the answers.
    """Answer requests until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.path.insert(0, str(Path(__file__).parent))
    options = json.loads(sys.argv[2])
    torch.set_num_threads(options["threads"])
    logging.disable_progress_bar()
    service = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if service is None:
                contestant = importlib.import_module(sys.argv[1]).Contestant(options)
                service = Service(contestant, options["device"])
            result = getattr(service, request.pop("do"))(**request)
            answer = {"result": result}
        except Exception:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()

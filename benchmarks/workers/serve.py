"""A contestant in a process of its own: loads once, then runs on request. One JSON line in, one out.

    python serve.py MODULE '{"path": ..., "threads": 2, ...}'

Runs in the peers' environment too, so it imports nothing of ours. MODULE is a file beside this one with a class
`Contestant(options)` that has

    prepare(key, path, **settings)   read a workload under a key
    tune(key) -> dict                choose its own settings for it (batch size, kind of attention)
    run(key) -> list | None          tag it; entities a sentence as [start, end, label, score]
    versions() -> dict
    count(key) -> dict               if it has markers to count
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

#: Operations that torch counts where a layer's weights are multiplied; the others are attention.
_LINEAR = ("aten.addmm", "aten.mm")
_CPU_ATTENTION = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu


def _count_attention(query, key, value, *_, **__):
    """The one kind of attention that torch's counter doesn't know. Takes shapes."""
    return sdpa_flop_count(query, key, value)


class Service:
    """The requests, each a method."""

    def __init__(self, contestant, device: str) -> None:
        self.contestant = contestant
        self.device = device

    def facts(self):
        return {"torch": torch.__version__, **self.contestant.versions()}

    def prepare(self, key, path, **settings):
        self.contestant.prepare(key, path, **settings)

    def tune(self, key):
        return self.contestant.tune(key)

    def first(self, key):
        """Run once, before any timing: what was found, and the multiply-accumulates that it took, counted."""
        with FlopCounterMode(display=False, custom_mapping={_CPU_ATTENTION: _count_attention}) as counter:
            entities = self.contestant.run(key)
        operations = {str(name): count // 2 for name, count in counter.get_flop_counts()["Global"].items()}
        linear = sum(operations.get(name, 0) for name in _LINEAR)
        more = self.contestant.count(key) if hasattr(self.contestant, "count") else {}
        return {"entities": entities, "linear": linear, "attention": sum(operations.values()) - linear, **more}

    def seconds(self, key):
        """Wall time of one run."""
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
    # What libraries print must not get between the answers.
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

"""An engine that runs shards in this process: the shard task without the cost of workers."""

from functools import lru_cache

from pipelines.shard import check_model, run_shard
from spanmarker_core import load

_load = lru_cache(load)


def run(shards, task, settings, listener):
    model = _load(task.model, gate=task.gate)
    check_model(model, task)
    listener.started({"device": "cpu"})
    for shard in shards:
        entry = run_shard(shard, task, model, lambda *done, name=shard.name: listener.progressed(name, *done))
        listener.finished(entry, shard.n_bytes)

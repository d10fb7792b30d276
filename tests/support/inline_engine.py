"""An engine that runs shards in this process: the shard tasks without the cost of workers."""

from functools import lru_cache

from pipelines.shards.model import check_model, model_for
from pipelines.shards.worker import run_shard
from pipelines.task import TagTask
from spanmarker_core import load
from spanmarker_core.default_model import bundled_model_path

_load = lru_cache(load)


def run(shards, task, settings, listener):
    if isinstance(task, TagTask):
        model = _load(task.model or str(bundled_model_path()), gate=task.gate)
        check_model(model, task)
    else:
        model = model_for(task)
    listener.started({"device": "cpu"})
    for shard in shards:
        entry = run_shard(shard, task, model, lambda done, name=shard.name: listener.progressed(name, done))
        listener.finished(entry, shard.n_bytes, "here")

"""An engine that runs shards in this process: the shard tasks without the cost of workers."""

from functools import lru_cache

from pipelines.shards.annotated import prepare_annotated
from pipelines.shards.corpus import prepare_shard, run_shard
from pipelines.shards.model import check_model, model_for
from pipelines.task import AnnotatedTask, TagTask
from spanmarker_core import load

_load = lru_cache(load)


def run(shards, task, settings, listener):
    if isinstance(task, TagTask):
        do, model = run_shard, _load(task.model, gate=task.gate)
        check_model(model, task)
    else:
        do = prepare_annotated if isinstance(task, AnnotatedTask) else prepare_shard
        model = model_for(task)
    listener.started({"device": "cpu"})
    for shard in shards:
        entry = do(shard, task, model, lambda *done, name=shard.name: listener.progressed(name, *done))
        listener.finished(entry, shard.n_bytes, "here")

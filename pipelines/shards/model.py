"""The model of a worker process: loaded once, and checked before any document is tagged."""

import os
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Union

import pyarrow as pa

from pipelines import CODE_VERSION
from pipelines.errors import PipelineError, describe
from pipelines.processes.memory import rss_bytes
from pipelines.stages.languages import AUTO
from pipelines.stages.pack import pack
from pipelines.stages.read import INPUTS
from pipelines.stages.split import split
from pipelines.stages.tag import tag
from pipelines.storage import use_options
from pipelines.task import AnnotatedTask, TagTask, Task
from pipelines.training_data.packing import read_tokenizer, tokenizer_digest, tokenizer_path
from spanmarker_core.bundle.reader import read_info, read_packer
from spanmarker_core.bundle.repositories import find_bundle
from spanmarker_core.default_model import bundled_model_path
from spanmarker_core.errors import CodedError
from spanmarker_core.text.detection import load_detector
from spanmarker_core.windows.packer import Context, Packer

if TYPE_CHECKING:  # It imports torch, which preparing samples does not need.
    from spanmarker_core.inference.tagger import Tagger

#: Time limit for loading a model, in seconds.
LOAD_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Packing:
    """The part of a model that packs windows; it needs no device and does not import torch.

    Attributes:
        packer: the packer.
        context: the text that a window shows around its sentence.
    """

    packer: Packer
    context: Context


#: What a worker loads for a task: a `Tagger` for a `TagTask`, else a `Packing`.
Model = Union["Tagger", Packing]


@lru_cache(maxsize=1)
def model_for(task: Task) -> Model:
    """Return the model of a task, loaded once per process, after checking the versions of model and program.

    The result is a `Tagger` for a `TagTask`, and otherwise a `Packing`, which does not import torch.

    Args:
        task: the shard task.

    Raises:
        CodedError: `worker.other_version`, `worker.other_model`, `worker.memory_too_small`, `model.not_loaded`, or an
            error of the bundle, the device or the job's decoder.
    """
    where = f"{os.uname().nodename}, process {os.getpid()}"
    if task.code != CODE_VERSION:
        raise PipelineError("worker.other_version", worker=where, there=CODE_VERSION, here=task.code)
    use_options(task.storage_options)

    if isinstance(task, AnnotatedTask):
        return _fitting(Packing(_annotating_packer(task, where), task.context), task)
    path = str(find_bundle(task.model).path if task.model else bundled_model_path())
    info = read_info(path)
    if info.digest != task.model_digest:
        raise PipelineError("worker.other_model", worker=where, path=path, there=info.digest, here=task.model_digest)
    if task.language == AUTO:
        load_detector()  # If it is missing, documents are not to blame.
    if not isinstance(task, TagTask):
        return _fitting(Packing(read_packer(path, info.config), info.config.context), task)

    import torch

    from spanmarker_core import load

    if task.threads:
        torch.set_num_threads(task.threads)
    try:
        model = load(path, device=task.device, dtype=task.dtype, gate=task.gate)
        check_model(model, task)
    except CodedError:
        raise
    except Exception as error:
        raise PipelineError("model.not_loaded", path=path, reason=describe(error)) from error
    return _fitting(model, task)


def _annotating_packer(task: AnnotatedTask, where: str) -> Packer:
    """Return the packer that a task describes, with the tokenizer that the driver stored in the output."""
    path = tokenizer_path(task.output)
    tokenizer = read_tokenizer(path)
    if (there := tokenizer_digest(tokenizer)) != task.model_digest:
        raise PipelineError("worker.other_model", worker=where, path=path, there=there, here=task.model_digest)
    return Packer(
        tokenizer,
        prefix=task.prefix,
        suffix=task.suffix,
        unknown_id=task.unknown_id,
        max_tokens=task.max_tokens,
        entity_max_length=task.entity_max_length,
        splitter=task.splitter,
    )


def _fitting(model: Model, task: Task) -> Model:
    """Reject a model that leaves no memory for a shard: each shard would end its worker process.

    Only the first model of a process is checked: later measurements include memory left over from earlier models.
    """
    if task.worker_bytes and not model_for.cache_info().currsize and (held := rss_bytes()) > task.worker_bytes:
        raise PipelineError("worker.memory_too_small", held=f"{held:,}", limit=f"{task.worker_bytes:,}")
    return model


def check_model(model: "Tagger", task: TagTask) -> None:
    """Tag a valid text: if that fails, the model is broken and documents are not to blame.

    Args:
        model: the loaded model.
        task: the shard task.

    Raises:
        CodedError: an error of the job's decoder or threshold, or `model.broken`, for example for a lost device.
    """
    documents = pa.RecordBatch.from_pylist(
        [{"document_id": "check", "source": "", "source_row": 0, "text": "Marie Curie lived in Paris."}],
        schema=INPUTS,
    )
    try:
        samples = pack(split(documents, "en"), model.packer, model.config.context)
        tag(samples, model, task.decoder, task.thresholds)
    except CodedError:
        raise
    except Exception as error:
        raise PipelineError("model.broken", reason=describe(error)) from error

"""`spanmarker gate fit`: unlabelled documents and a bundle in, the bundle with a gate out."""

import heapq
from collections.abc import Iterator
from itertools import islice
from time import monotonic
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, field_validator
from rich.console import Console

from pipelines.plan import plan_shards
from pipelines.stages.read import read
from pipelines.storage import absolute
from schemas.shards import Shard
from spanmarker_core.bundle import read_info
from spanmarker_core.errors import CoreError
from spanmarker_core.sentences import split_sentences
from spanmarker_core.windows import Context, Packer, Windows

#: Shards that the text is taken from, drawn from all: more than a few, so that one file doesn't stand for the corpus.
_SHARDS = 32
_SHARD_BYTES = 1 << 20
#: One document gives at most this share of the sentences, so that many documents are seen, but no fewer than that.
_DOCUMENT_SHARE, _DOCUMENT_SENTENCES = 0.05, 20


class GateJob(BaseModel):
    """One `spanmarker gate fit`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field(min_length=1, description="bundle to fit a gate to; stays as it is")
    corpus: list[str] = Field(min_length=1, description="patterns of files of unlabelled documents, as tag takes them")
    output: str = Field(min_length=1, description="folder for the bundle with the gate; must not exist or be empty")
    sentences: int = Field(3000, ge=1, description="sentences of the corpus to look at")
    target_recall: float = Field(0.995, gt=0, le=1, description="share of the ungated model's entities that must pass")
    annotated: str | None = Field(None, description="annotated sentences, for recall of gold and F1 on the curve")
    scheme: str | None = Field(None, description="label scheme of tagged data, such as IOB2")
    id_column: str = Field("id", description="column or JSON key of the ids")
    text_column: str = Field("text", description="column or JSON key of the texts")
    language: str = Field("en", description="language of the texts, for the sentence splitter")
    device: str = Field("cpu", description="cpu, cuda or auto")

    @field_validator("corpus", mode="before")
    @classmethod
    def _one_pattern(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value


def run_gate_fit(job: GateJob, console: Console) -> None:
    """Read text, run the model over it, fit the gate, write the bundle and say what the gate does.

    Raises:
        CodedError: a fault of the job: what is known without running the model comes first.
    """
    info = read_info(job.model)
    if info.config.gated:
        raise CoreError("gate.trained_jointly", path=info.path)

    # Only here, so that the faults above are told without torch.
    from spanmarker_core import load
    from spanmarker_core.data import read_annotated
    from spanmarker_core.model_card import card_files, model_card
    from spanmarker_core.saving import check_output, save_bundle, stored_dtype
    from spanmarker_core.training.gate import fit_gate

    def say(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    check_output(job.output)
    annotated = list(read_annotated(job.annotated, job.scheme)) if job.annotated else None
    began = monotonic()
    model = load(info.path, job.device, gate="off")
    windows = read_windows(job, info.config.context, model.packer)
    sentences, documents = (len(np.unique(numbers)) for numbers in (windows.word_sentence, windows.document))
    say(f"{sentences:,} sentences of {documents:,} documents; the model scores all their spans")
    dtype = stored_dtype(info.path)
    fitted = fit_gate(model, windows, job.target_recall, annotated, dtype, say)
    files = card_files(fitted.config)
    tokenizer = model.packer.tokenizer
    digest = save_bundle(job.output, fitted.config, model.network, tokenizer, model_card(fitted.config), dtype, files)
    gate = fitted.config.gate
    assert gate is not None
    kept = next(point["kept"] for point in gate["curve"] if point["threshold"] == gate["threshold"])
    say(
        f"{job.output}: at {gate['threshold']} the gate keeps {kept:.2%} of the spans and {fitted.n_passing:,} of "
        f"{fitted.n_entities:,} entities ({fitted.n_passing / fitted.n_entities:.2%}) in held-out text; "
        f"{monotonic() - began:.0f} s, model {digest[:12]}"
    )
    say("The gate is off unless it is asked for, as in `spanmarker tag --gate on`: it was not part of the training.")


def read_windows(job: GateJob, context: Context, packer: Packer) -> Windows:
    """Read sentences of the corpus until there are enough, and pack them as the bundle is tagged.

    Sentences of all documents have different numbers.
    """
    parts: list[Windows] = []
    number = 0
    at_most = max(_DOCUMENT_SENTENCES, int(_DOCUMENT_SHARE * job.sentences))
    for text in _texts(job):
        bounds = list(islice(split_sentences(text, job.language), min(at_most, job.sentences - number)))
        if not bounds:
            continue
        parts.append(_pack(packer, context, text, bounds, len(parts), number))
        number += len(bounds)
        if number >= job.sentences:
            break
    if not parts:
        raise CoreError("gate.too_few_documents", found=0, limit=3)
    return Windows.concatenate(parts)


def _pack(
    packer: Packer, context: Context, text: str, bounds: list[tuple[int, int]], document: int, number: int
) -> Windows:
    encoded = packer.encode_texts([text[start:end] for start, end in bounds])
    return packer.pack(
        encoded,
        context,
        document=document,
        char_starts=[start for start, _ in bounds],
        sentence_ids=range(number, number + len(bounds)),
    )


def _texts(job: GateJob) -> Iterator[str]:
    """Yield texts of the corpus, one from each of some shards in turn.

    The shards are those whose names end in the smallest digests: any of the corpus, and the same ones every time.
    """
    found = plan_shards(
        job.corpus,
        output=absolute(job.output),
        id_column=job.id_column,
        text_column=job.text_column,
        max_shard_bytes=_SHARD_BYTES,
        job="gate",
    )
    shards = heapq.nsmallest(_SHARDS, found, key=lambda shard: shard.name.rpartition("-")[2])
    sources = [_shard_texts(shard, job) for shard in shards]
    while sources:
        for source in list(sources):
            text = next(source, None)
            if text is None:
                sources.remove(source)
            else:
                yield text


def _shard_texts(shard: Shard, job: GateJob) -> Iterator[str]:
    for batch in read(shard, job.id_column, job.text_column):
        yield from batch.documents["text"].to_pylist()

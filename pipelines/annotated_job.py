"""`spanmarker prepare --annotated`: annotated data in, windows with their gold out, for `spanmarker train`.

OUT/annotated_samples/, documents/, rejects/, gold_problems/   see `annotated`
OUT/tokenizer.json    the encoder's, as it packs: workers need no more of the encoder
OUT/summary.json      what the data hold, and what is the matter with their annotations
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field
from tokenizers import Tokenizer

from pipelines.annotated_plan import plan_annotated
from pipelines.jobs import ShardJob
from pipelines.layout import ANNOTATED
from pipelines.manifest import read_entries
from pipelines.names import NameSet
from pipelines.storage import absolute, join, publish_bytes, read_all
from pipelines.task import AnnotatedTask
from schemas.annotated import CODES, WRONG
from schemas.manifest import Entry
from schemas.shards import Shard
from spanmarker_core.data.summary import DataSummary
from spanmarker_core.labels import scheme_called
from spanmarker_core.windows import Context, Packer


class AnnotatedJob(ShardJob):
    """One `spanmarker prepare --annotated`. The defaults are those of `spanmarker train`."""

    verb = "prepare"
    annotated: Literal[True] = Field(True, description="the input is annotated, and is prepared for training")
    input: list[str] = Field(min_length=1, description="patterns of files and of folders saved by `datasets`")
    encoder: str = Field(min_length=1, description="folder of the pretrained encoder that is to be trained")
    scheme: str | None = Field(None, description="label scheme of tagged data, such as IOB2")
    entity_max_length: int = Field(8, ge=1, description="words of the longest entity")
    max_tokens: int = Field(256, ge=16, description="tokens of a window")
    context: Literal["sentence", "document", "block"] = Field("sentence", description="what a window shows and tags")
    max_prev_context: int | None = Field(None, ge=0, description="limit of previous sentences; none if left out")
    max_next_context: int | None = Field(None, ge=0, description="limit of next sentences; none if left out")
    splitter: Literal["words.v1", "tokenizer.v1"] = Field("words.v1", description="how raw text becomes words")

    def described(self) -> dict[str, Any]:
        """Return the job as reports and logs may show it."""
        return {**super().described(), "encoder": str(Path(self.encoder).absolute())}

    @property
    def shown(self) -> Context:
        """What a window shows around its sentence."""
        return Context(self.context, self.max_prev_context, self.max_next_context)


class AnnotatedWork:
    """What the job comes to; see `kinds.JobWork`."""

    def __init__(self, job: AnnotatedJob) -> None:
        self.job: ShardJob = job
        self._job, self._context = job, job.shown
        self._packer = _read_packer(job)
        self._scheme = scheme_called(job.scheme) if job.scheme is not None else None  # one identity for all its names
        self.identity = {
            **packing_identity(self._packer, self._context),
            **job.read_values(),
            "scheme": str(self._scheme),
            **{f"schema.{table.name}": str(table.version) for table in ANNOTATED},
        }

    def begin(self, output: str) -> None:
        """Put the tokenizer where workers find it."""
        publish_bytes(tokenizer_path(output), self._packer.tokenizer.to_str().encode())

    def shards(self, output: str, digest: str) -> Iterator[Shard]:
        """Yield the plan."""
        job = self._job
        return plan_annotated(
            job.input,
            output=output,
            id_column=job.id_column,
            text_column=job.text_column,
            scheme=self._scheme,
            max_shard_bytes=job.max_shard_bytes,
            job=digest,
            max_bytes=int(job.worker_memory),
        )

    def task(self, digest: str) -> AnnotatedTask:
        """Return what a shard task needs."""
        packer = self._packer
        return AnnotatedTask(
            **self._job.task_values(digest),
            model="",
            model_digest=tokenizer_digest(packer.tokenizer),
            prefix=tuple(packer.prefix.tolist()),
            suffix=tuple(packer.suffix.tolist()),
            unknown_id=packer.unknown_id,
            max_tokens=packer.max_tokens,
            entity_max_length=packer.entity_max_length,
            splitter=packer.splitter,
            context=self._context,
            scheme=self._scheme,
        )

    def end(self, output: str, planned: NameSet) -> None:
        """Write summary.json."""
        values = GoldSummary.over(read_entries(output, planned)).to_json()
        publish_bytes(join(output, "summary.json"), json.dumps(values, indent=1, ensure_ascii=False).encode() + b"\n")


def _read_packer(job: AnnotatedJob) -> Packer:
    """Return the packer that training on the job's encoder will have."""
    # Imported late: it brings torch, and workers have none.
    from spanmarker_core.training.encoder import encoder_packer
    from spanmarker_core.training.settings import TrainingSettings

    settings = TrainingSettings(
        entity_max_length=job.entity_max_length, max_tokens=job.max_tokens, context=job.shown, splitter=job.splitter
    )
    return encoder_packer(job.encoder, settings)


def packing_identity(packer: Packer, context: Context) -> dict[str, str]:
    """Return all that decides the windows of given sentences."""
    return {
        "tokenizer": tokenizer_digest(packer.tokenizer),
        "special_tokens": f"{packer.prefix.tolist()} {packer.suffix.tolist()}, unknown {packer.unknown_id}",
        "max_tokens": str(packer.max_tokens),
        "entity_max_length": str(packer.entity_max_length),
        "splitter": packer.splitter,
        "context": context.policy,
        "max_prev_context": str(context.max_prev),
        "max_next_context": str(context.max_next),
    }


def tokenizer_path(output: str) -> str:
    """Return where an output's tokenizer lies."""
    return join(absolute(output), "tokenizer.json")


def read_tokenizer(path: str) -> Tokenizer:
    """Return the tokenizer in a file, which may lie in a store."""
    return Tokenizer.from_str(read_all([path])[0].decode())


def tokenizer_digest(tokenizer: Tokenizer) -> str:
    """Return a digest of all that a tokenizer does."""
    return hashlib.sha256(tokenizer.to_str().encode()).hexdigest()


@dataclass(slots=True)
class GoldSummary:
    """What annotated data hold.

    Attributes:
        data: of the sentences as they are to be learned.
        problems: annotations by code of GOLD_PROBLEMS, those of rejected documents aside.
        learned: annotations that are candidate spans of a window.
        documents: all that were read, `rejected` among them.
        unreadable: sentences, and parts of files, that are in no document.
    """

    data: DataSummary
    problems: Counter[str]
    learned: int = 0
    documents: int = 0
    rejected: int = 0
    unreadable: int = 0

    @classmethod
    def over(cls, entries: Iterable[Entry]) -> "GoldSummary":
        """Add up finished shards."""
        summary = cls(DataSummary(), Counter())
        for entry in entries:
            summary.data.merge(DataSummary.from_json(entry.data))
            summary.problems.update({code: entry.counts[f"gold_{code}"] for code in CODES})
            summary.learned += entry.counts["entities"]
            summary.documents += entry.counts["documents"]
            summary.rejected += entry.counts["rejected"]
            summary.unreadable += entry.counts["unreadable"]
        return summary

    @property
    def annotations(self) -> int:
        """All annotations, each once."""
        return self.learned + sum(count for code, count in self.problems.items() if code != "duplicate")

    @property
    def wrong(self) -> int:
        """Annotations whose ranges are no words."""
        return sum(self.problems[code] for code in WRONG)

    @property
    def lost_share(self) -> float:
        """Share of the documents that were rejected, or of the sentences, whichever is more."""
        sentences = self.unreadable + self.data.sentences
        return max(self.rejected / max(self.documents, 1), self.unreadable / max(sentences, 1))

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "documents": self.documents,
            "rejected": self.rejected,
            "unreadable": self.unreadable,
            "annotations": self.annotations,
            "learned": self.learned,
            "problems": {code: self.problems[code] for code in CODES},
            "wrong_share": self.wrong / self.annotations if self.annotations else 0.0,
            "data": self.data.to_json(),
        }

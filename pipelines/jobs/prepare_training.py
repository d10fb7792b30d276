"""The job of `spanmarker prepare --annotated`."""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from pipelines.jobs.base import ShardJob
from spanmarker_core.windows.packer import Context


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

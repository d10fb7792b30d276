"""Job model of `spanmarker prepare --annotated`."""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from pipelines.jobs.base import ShardJob
from spanmarker_core.windows.packer import Context


class AnnotatedJob(ShardJob):
    """The job of `spanmarker prepare --annotated`. The defaults are those of `spanmarker train`."""

    verb = "prepare"
    annotated: Literal[True] = Field(True, description="the input is annotated and is prepared for training")
    input: list[str] = Field(min_length=1, description="glob patterns of files, and folders saved by `datasets`")
    encoder: str = Field(min_length=1, description="folder of the pretrained encoder to train")
    scheme: str | None = Field(None, description="label scheme of tagged data, such as IOB2")
    token_column: int | str | None = Field(
        None, description="CoNLL: column of the words, by number from 0 or name; default: the first but for an index"
    )
    tag_column: int | str | None = Field(
        None, description="CoNLL: column of the tags, by number (-1 is the last) or name; default: the last"
    )
    entity_max_length: int = Field(8, ge=1, description="maximum length of an entity, in words")
    max_tokens: int = Field(256, ge=16, description="maximum length of a window, in tokens")
    context: Literal["sentence", "document", "block"] = Field(
        "sentence",
        description="text of a window: one sentence, a sentence with its neighbours, or a block of sentences",
    )
    max_prev_context: int | None = Field(
        None, ge=0, description="maximum number of previous sentences; default: no limit"
    )
    max_next_context: int | None = Field(None, ge=0, description="maximum number of next sentences; default: no limit")
    splitter: Literal["words.v1", "tokenizer.v1"] = Field("words.v1", description="how raw text is split into words")

    def described(self) -> dict[str, Any]:
        """Return the job for reports and logs, without the values of options that may hold secrets."""
        return {**super().described(), "encoder": str(Path(self.encoder).absolute())}

    @property
    def shown(self) -> Context:
        """Return the context shown in the window of a sentence."""
        return Context(self.context, self.max_prev_context, self.max_next_context)

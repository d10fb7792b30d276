"""Job model of `spanmarker prepare --annotated`."""

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field

from pipelines.jobs.base import Inputs, ShardJob
from pipelines.jobs.shared import AnnotatedColumns, Encoder
from spanmarker_core.bundle.repositories import find_encoder, repository_of
from spanmarker_core.training.settings import PackingFields


class AnnotatedJob(AnnotatedColumns, ShardJob, PackingFields):
    """The job of `spanmarker prepare --annotated`."""

    verb = "prepare"
    annotated: Literal[True] = True
    input: Inputs = Field(min_length=1)
    encoder: Encoder

    def described(self) -> dict[str, Any]:
        """Return the job for reports and logs, without the values of options that may hold secrets."""
        local = repository_of(self.encoder) is None
        return {**super().described(), "encoder": str(Path(self.encoder).absolute()) if local else self.encoder}

    def pinned(self) -> Self:
        """Return the job with the commit of its encoder in place of a branch or tag; its tokenizer is downloaded.

        Raises:
            CoreError: `encoder.not_found`; `hub.*`, as in `find_encoder`.
        """
        return self.model_copy(update={"encoder": find_encoder(self.encoder, weights=False).name})

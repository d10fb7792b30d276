"""Job model of `spanmarker prepare --annotated`."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from pipelines.jobs.base import Inputs, ShardJob
from pipelines.jobs.shared import AnnotatedColumns
from spanmarker_core.shown import Panel, Shown
from spanmarker_core.training.settings import PackingFields


class AnnotatedJob(AnnotatedColumns, ShardJob, PackingFields):
    """The job of `spanmarker prepare --annotated`."""

    verb = "prepare"
    annotated: Literal[True] = True
    input: Inputs = Field(min_length=1)
    encoder: Annotated[str, Shown(Panel.MODEL, "FOLDER")] = Field(
        min_length=1, description="Folder of the pretrained encoder."
    )

    def described(self) -> dict[str, Any]:
        """Return the job for reports and logs, without the values of options that may hold secrets."""
        return {**super().described(), "encoder": str(Path(self.encoder).absolute())}

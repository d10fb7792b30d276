"""Job model of `spanmarker train`."""

from typing import Annotated, Any

from pydantic import Field, field_validator

from pipelines.jobs.job_file import named_values
from pipelines.jobs.shared import AnnotatedColumns, CardTexts, Encoder
from spanmarker_core.shown import Panel, Shown
from spanmarker_core.training.settings import TrainingFields, TrainingSettings


class TrainJob(AnnotatedColumns, TrainingFields, CardTexts):
    """The job of `spanmarker train`: the settings of the training, its files, and texts for the card."""

    train: Annotated[str, Shown(Panel.FILES, "DATA")] = Field(
        description="Annotated data in any format of docs/reference/formats.md, or the output of `prepare --annotated`."
    )
    dev: Annotated[str, Shown(Panel.FILES, "DATA")] = Field(
        description="Annotated sentences, on which the best epoch is chosen."
    )
    test: Annotated[str | None, Shown(Panel.FILES, "DATA")] = Field(
        None, description="Annotated sentences that are scored once at the end."
    )
    encoder: Encoder
    output: Annotated[str, Shown(Panel.FILES, "FOLDER")] = Field(
        description="Folder for the bundle; must be empty or not exist."
    )
    train_sentences: Annotated[int | None, Shown(Panel.FILES, "N")] = Field(
        None, ge=1, description="Use only the first N training sentences.  [default: all]"
    )
    max_misaligned: Annotated[float, Shown(Panel.FILES, "SHARE")] = Field(
        0.01,
        ge=0,
        le=1,
        description="Maximum share of misaligned annotations, and of rejected records, in prepared data.",
    )

    @field_validator("options", mode="before")
    @classmethod
    def _named_values(cls, given: object) -> object:
        """Accept the command line's list of NAME=VALUE, where VALUE is JSON or a plain string."""
        return named_values(given) if isinstance(given, list) else given

    @field_validator("report_to")
    @classmethod
    def _known_integrations(cls, names: list[str]) -> list[str]:
        if not names:
            return names

        # Imported late, because it imports torch.
        from transformers.integrations.integration_utils import (
            INTEGRATION_TO_CALLBACK,
            get_available_reporting_integrations,
        )

        if unknown := sorted(set(names) - set(INTEGRATION_TO_CALLBACK)):
            known = ", ".join(sorted(INTEGRATION_TO_CALLBACK))
            raise ValueError(f"{', '.join(unknown)} is not an integration of transformers, which has: {known}")
        if missing := sorted(set(names) - set(get_available_reporting_integrations())):
            raise ValueError(f"{', '.join(missing)} is not installed: install its package first")
        return names

    def settings(self) -> TrainingSettings:
        """Return the settings for `spanmarker_core.training`."""
        return TrainingSettings(**self.given)

    def facts(self) -> dict[str, Any]:
        """Return the texts for the model card."""
        return self.model_dump(include=set(CardTexts.model_fields), exclude_none=True)

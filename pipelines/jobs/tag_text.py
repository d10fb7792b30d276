"""Job model of `spanmarker tag --text`."""

from pydantic import ValidationInfo, field_validator

from pipelines.errors import PipelineError
from pipelines.jobs.tag import TagJob

#: Options of `spanmarker tag` that also apply to texts on the command line.
APPLIED = (
    "model",
    "language",
    "sentence_breaks",
    "decoder",
    "threshold",
    "labels",
    "gate",
    "device",
    "dtype",
    "threads",
)


class TextJob(TagJob):
    """The job of `spanmarker tag --text`, which prints entities. Settings of inputs and outputs are not used."""

    output: str = ""

    @field_validator("samples")
    @classmethod
    def _one_source(cls, value: str | None, info: ValidationInfo) -> str | None:
        return value


def refuse_unused(given: list[str]) -> None:
    """Reject options that have no effect with `--text`.

    Args:
        given: names of the fields that were given on the command line.

    Raises:
        PipelineError: `job.invalid`.
    """
    if unused := [f"--{name.replace('_', '-')}" for name in given if name not in APPLIED]:
        them = "it" if len(unused) == 1 else "them"
        problem = f"  {', '.join(unused)}: --text prints entities and writes no files; remove {them} or --text"
        raise PipelineError("job.invalid", problems=problem)

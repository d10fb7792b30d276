"""The job of `spanmarker prepare`."""

from pydantic import Field

from pipelines.jobs.base import CorpusJob
from pipelines.output.layout import SAMPLE_TABLES
from spanmarker_core.bundle.reader import BundleInfo


class PrepareJob(CorpusJob):
    """One `spanmarker prepare`: reading, splitting and packing, so that tagging needs no more than a model's device."""

    verb = "prepare"
    input: list[str] = Field(min_length=1, description="patterns of input files, local or fsspec URLs")

    def identity(self, info: BundleInfo) -> dict[str, str]:
        """Return everything but the inputs that decides the samples."""
        versions = {f"schema.{table.name}": str(table.version) for table in SAMPLE_TABLES}
        return {**super().identity(info), **versions}

"""Job model of `spanmarker prepare`."""

from pydantic import Field

from pipelines.jobs.base import CorpusJob, Inputs
from pipelines.output.layout import SAMPLE_TABLES
from spanmarker_core.bundle.reader import BundleInfo


class PrepareJob(CorpusJob):
    """The job of `spanmarker prepare`: read, split and pack documents, so that GPU machines only have to tag."""

    verb = "prepare"
    input: Inputs = Field(min_length=1)

    def identity(self, info: BundleInfo) -> dict[str, str]:
        """Return the job identity: everything except the inputs that determines the samples.

        Args:
            info: metadata of the model bundle.
        """
        versions = {f"schema.{table.name}": str(table.version) for table in SAMPLE_TABLES}
        return {**super().identity(info), **versions}

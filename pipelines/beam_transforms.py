"""Kept for those who import it from here: see `pipelines.engines.beam.transforms`."""

from pipelines.engines.beam.transforms import (
    BATCH_CHARACTERS as BATCH_CHARACTERS,
)
from pipelines.engines.beam.transforms import (
    PackSamples as PackSamples,
)
from pipelines.engines.beam.transforms import (
    Reject as Reject,
)
from pipelines.engines.beam.transforms import (
    SpanMarkerModelHandler as SpanMarkerModelHandler,
)
from pipelines.engines.beam.transforms import (
    SplitSentences as SplitSentences,
)
from pipelines.engines.beam.transforms import (
    Tagged as Tagged,
)
from pipelines.engines.beam.transforms import (
    TagSamples as TagSamples,
)

"""PL-Marker: packed levitated markers (Ye et al. 2022; thesis, chapter 1 and 2.3), as a baseline.

Spans of a window are split into groups of 128 marker pairs, and each group goes through the encoder with a copy of the
text of its own: text padded to the window's limit, markers to 256 after it, a square mask over both. A span's
features are the states of its two markers and those of its first and last token.

Its scores are those of `span_marker.v1` with `text_features` and the same weights; what differs is the cost, a
sample of max_tokens + 256 tokens for every 128 spans. Not here: its own order of training, and relations.
"""

import numpy as np

from spanmarker_core.bundle.config import ModelConfig
from spanmarker_core.models.attention import Rows, TextPass
from spanmarker_core.models.batch import Batch
from spanmarker_core.models.joint import Sampling
from spanmarker_core.models.span_marker import SpanMarkerModel


class PLMarkerModel(SpanMarkerModel):
    """SpanMarker whose text is read anew with each group of markers.

    Args:
        encoder: has rows for both markers in its embedding matrix.
        config: says which rows.

    Raises:
        CoreError: `encoder.no_position_ids`.
        UnusableError: if the encoder can't run.
    """

    def read(self, batch: Batch) -> TextPass:
        """Read no text, as each sample reads its own; but for a gate, for tags, and where there is no sample."""
        if self.gate is not None or self.tags is not None or not len(batch.spans):
            return super().read(batch)
        text = TextPass(Rows(np.diff(batch.token_offsets), self.heads, batch.token_ids.device))
        text.states = self.classifier.weight.new_zeros((0, self.encoder.config.hidden_size))
        return text

    def _sampling(self, config: ModelConfig) -> Sampling:
        return Sampling("paired", self.options.group, text_tokens=config.max_tokens)

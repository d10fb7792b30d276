"""PL-Marker: packed levitated markers (Ye et al. 2022; thesis, chapter 1 and 2.3), as a baseline.

Spans of a window are split into groups of 128 marker pairs, and each group goes through the encoder with its own copy
of the text: text padded to the window's limit, followed by markers padded to 256, with a square mask over both. A
span's features are the states of its two markers and of its first and last token.

Its scores are those of `span_marker.v1` with `text_features` and the same weights; only the cost differs: a sample of
max_tokens + 256 tokens for every 128 spans. The paper's order of training and its relation extraction are not included.
"""

import numpy as np

from spanmarker_core.bundle.config import ModelConfig
from spanmarker_core.models.attention import Rows, TextPass
from spanmarker_core.models.batch import Batch
from spanmarker_core.models.joint import Sampling
from spanmarker_core.models.span_marker import SpanMarkerModel


class PLMarkerModel(SpanMarkerModel):
    """A SpanMarker model that encodes the text again with each group of markers.

    Args:
        encoder: an encoder with rows for both markers in its embedding matrix.
        config: the model's config, with the ids of the markers.

    Raises:
        CoreError: `encoder.no_position_ids`.
        UnusableError: the encoder can't run on packed texts.
    """

    def read(self, batch: Batch) -> TextPass:
        """Return a text pass: empty, because each sample encodes its own text, unless a gate or tags need it.

        It is not empty either if there are no spans, so that the encoder always runs.

        Args:
            batch: the batch.
        """
        if self.gate is not None or self.tags is not None or not len(batch.spans):
            return super().read(batch)
        text = TextPass(Rows(np.diff(batch.token_offsets), self.heads, batch.token_ids.device))
        text.states = self.classifier.weight.new_zeros((0, self.encoder.config.hidden_size))
        return text

    def _sampling(self, config: ModelConfig) -> Sampling:
        return Sampling("paired", self.options.group, text_tokens=config.max_tokens)

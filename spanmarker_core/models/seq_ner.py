"""SeqNER: words tagged by a softmax or a CRF, and entities decoded from the tags (Ji et al. 2022, section 3.1.2).

It does not score spans. It returns those decoded entities that are candidate spans: up to `entity_max_length` words
of one sentence, with a token at both edges.
"""

from typing import Any

import numpy as np
from transformers import PreTrainedModel

from spanmarker_core.architectures.registry import NetworkScores
from spanmarker_core.bundle.config import ModelConfig
from spanmarker_core.models.attention import StatesPass
from spanmarker_core.models.batch import Batch
from spanmarker_core.models.network import SpanNetwork


class SeqNerModel(SpanNetwork):
    """An encoder with a sequence head.

    Args:
        encoder: a transformers encoder that takes position ids.
        config: the model's config.

    Raises:
        CoreError: `encoder.no_position_ids`.
        UnusableError: the encoder can't run on packed texts.
    """

    text_pass = StatesPass

    def __init__(self, encoder: PreTrainedModel, config: ModelConfig) -> None:
        super().__init__(encoder, config)
        self.smoke_test()

    @staticmethod
    def feature_size(options: Any, hidden: int) -> int:
        """Return 0: spans don't have features.

        Args:
            options: unused.
            hidden: unused.
        """
        return 0

    def forward(
        self, batch: Batch, gate_threshold: float | None = None, spans_a_chunk: int | None = None
    ) -> NetworkScores:
        """Tag the words; in evaluation mode, return the candidate spans decoded from the tags.

        Args:
            batch: the batch.
            gate_threshold: unused.
            spans_a_chunk: unused.
        """
        assert self.tags is not None
        tags = self.tags.emissions(self.encode_text(batch).states, batch)
        if not self.training:
            return self._tagged(batch, tags)
        return NetworkScores(tags.new_zeros((0, len(self.types) + 1)), np.zeros(0, np.int64), None, tags)

"""What training minimises."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from spanmarker_core.models.batch import Batch


class SpanLoss(nn.Module):
    """A network with its training loss: cross-entropy over the spans, classes weighted equally.

    With a gate, w · gate + (1 - w) · spans, where the gate's part is the binary cross-entropy of its answers a word.
    With a head of tags, alpha · tags + (1 - alpha) · the rest; a model that has nothing else learns from its tags
    alone. Sources: thesis 2.3.1; SmartSpanner, equations 6 and 7; BL-NER, equation 19.

    Args:
        network: the model.
        gate_weight: w.
        tag_weight: alpha.
    """

    def __init__(self, network: nn.Module, gate_weight: float, tag_weight: float = 0.0) -> None:
        super().__init__()
        self.network = network
        self.gate_weight = gate_weight
        self.tag_weight = tag_weight

    def forward(
        self,
        batch: Batch,
        labels: Tensor,
        gate: Tensor,
        asked: Tensor,
        tags: Tensor | None = None,
        chains: np.ndarray | None = None,
        totals: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Return `{"loss": scalar}`.

        Args:
            batch, labels, gate, asked, tags, chains: as `Examples.batch` made them.
            totals: int64 [3], what the means are over, as `counts` tells it of a whole step, of which this is a part.
                Losses of the parts then add up to the step's. None takes this batch's own.
        """
        scores = self.network(batch.to(labels.device))
        if totals is None:
            totals = self.counts({"labels": labels, "asked": asked, "tags": tags, "chains": chains})
        # Sums over counts of at least one, since the mean over nothing is not a number.
        n_spans, n_asked, n_units = totals.to(labels.device).clamp_min(1)
        wanted = labels if scores.kept is None else labels[torch.from_numpy(scores.kept).to(labels.device)]
        loss = nn.functional.cross_entropy(scores.logits, wanted, reduction="sum") / n_spans
        if scores.gate is not None:
            gate_loss = nn.functional.binary_cross_entropy_with_logits(scores.gate, gate, asked, reduction="sum")
            loss = self.gate_weight * gate_loss / n_asked + (1 - self.gate_weight) * loss
        if scores.tags is not None:
            tag_loss: Tensor = self.network.tags.loss(scores.tags, tags, chains) / n_units  # type: ignore[union-attr, operator]
            loss = self.tag_weight * tag_loss + (1 - self.tag_weight) * loss
        return {"loss": loss}

    def counts(self, example: Mapping[str, Any]) -> Tensor:
        """Return what an example's means are over, int64 [3]: spans, answers of the gate, units of the head of tags."""
        units = 0
        if example.get("tags") is not None:
            units = self.network.tags.units(example["tags"], example["chains"])  # type: ignore[union-attr, operator]
        return torch.tensor([len(example["labels"]), int(example["asked"].sum()), units])

"""Training loss."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from spanmarker_core.models.batch import Batch


class SpanLoss(nn.Module):
    """A network with its training loss: cross-entropy over the spans, with equal weights for all classes.

    With a gate, the loss is w · gate + (1 - w) · spans, where the first part is the binary cross-entropy of the gate's
    logits per word. With a sequence head, it is alpha · tags + (1 - alpha) · the rest; a model with tags only is
    trained on its tags alone. Sources: thesis 2.3.1; SmartSpanner, equations 6 and 7; BL-NER, equation 19.

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
        gate_mask: Tensor,
        tags: Tensor | None = None,
        chains: np.ndarray | None = None,
        totals: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Compute the loss of a batch.

        Args:
            batch: the batch.
            labels: int64 [n_spans], class of each span; or float32 [n_spans, n_classes], share of each class.
            gate: float32 [n_words, 2], targets of the gate.
            gate_mask: float32 [n_words, 2], 1 where the gate is trained, else 0.
            tags: int64 [n_words], tags of words; None without a sequence head.
            chains: int64 [n_words], chain of each word; None without a sequence head.
            totals: int64 [3], denominators of the means, from `counts`. For a part of a step, those of the whole step,
                so that the losses of its parts add up to the step's loss. None uses the counts of this batch.

        Returns:
            `{"loss": scalar}`.
        """
        scores = self.network(batch.to(labels.device))
        if totals is None:
            totals = self.counts({"labels": labels, "gate_mask": gate_mask, "tags": tags, "chains": chains})
        # Divide sums by counts of at least one, since a mean over nothing is NaN.
        n_spans, n_gated, n_units = totals.to(labels.device).clamp_min(1)
        targets = labels if scores.kept is None else labels[torch.from_numpy(scores.kept).to(labels.device)]
        loss = nn.functional.cross_entropy(scores.logits, targets, reduction="sum") / n_spans
        if scores.gate is not None:
            gate_loss = nn.functional.binary_cross_entropy_with_logits(scores.gate, gate, gate_mask, reduction="sum")
            loss = self.gate_weight * gate_loss / n_gated + (1 - self.gate_weight) * loss
        if scores.tags is not None:
            tag_loss: Tensor = self.network.tags.loss(scores.tags, tags, chains) / n_units  # type: ignore[union-attr, operator]
            loss = self.tag_weight * tag_loss + (1 - self.tag_weight) * loss
        return {"loss": loss}

    def counts(self, example: Mapping[str, Any]) -> Tensor:
        """Return the denominators of an example's means, int64 [3]: spans, gate targets, units of the sequence head.

        Args:
            example: a batch with its targets, as a dict of the arguments of `forward`.
        """
        units = 0
        if example.get("tags") is not None:
            units = self.network.tags.units(example["tags"], example["chains"])  # type: ignore[union-attr, operator]
        return torch.tensor([len(example["labels"]), int(example["gate_mask"].sum()), units])

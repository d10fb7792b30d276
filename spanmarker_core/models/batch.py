"""A batch of windows with their candidate spans, as a model takes it."""

from dataclasses import dataclass

import torch
from torch import Tensor

from spanmarker_core.spans import Spans
from spanmarker_core.windows import Windows


@dataclass(frozen=True, slots=True)
class Batch:
    """Windows packed end to end, and their candidate spans.

    Attributes:
        token_ids: int64 [n_tokens], special tokens included.
        window_offsets: window `i` is tokens `window_offsets[i]:window_offsets[i + 1]`.
        span_offsets: spans of window `i` are `span_offsets[i]:span_offsets[i + 1]`.
        first_token, last_token: int64 [n_spans], inclusive, counted in the span's window.
    """

    token_ids: Tensor
    window_offsets: list[int]
    span_offsets: list[int]
    first_token: Tensor
    last_token: Tensor

    @classmethod
    def build(cls, windows: Windows, spans: Spans) -> "Batch":
        """Turn windows and their `candidate_spans` into tensors (on the CPU)."""
        return cls(
            token_ids=torch.from_numpy(windows.token_ids).long(),
            window_offsets=windows.token_offsets.tolist(),
            span_offsets=spans.offsets.tolist(),
            first_token=torch.from_numpy(spans.first_token).long(),
            last_token=torch.from_numpy(spans.last_token).long(),
        )

    def to(self, device: torch.device) -> "Batch":
        """Move the tensors to a device."""
        return Batch(
            self.token_ids.to(device),
            self.window_offsets,
            self.span_offsets,
            self.first_token.to(device),
            self.last_token.to(device),
        )

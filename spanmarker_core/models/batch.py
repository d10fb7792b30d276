"""A batch of windows with their candidate spans, the input of a model."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from spanmarker_core.spans.candidates import Spans, sentence_runs
from spanmarker_core.windows.packer import Windows


@dataclass(frozen=True, slots=True)
class Batch:
    """Windows packed end to end, and their candidate spans.

    The spans to score are selected on the CPU, batch by batch, so only the tokens are moved to a GPU.

    Attributes:
        token_ids: int64 [n_tokens], special tokens included.
        token_offsets: int64 [n_windows + 1]; window `i` is tokens `token_offsets[i]:token_offsets[i + 1]`.
        first_token: int64 [n_words], index of each word's first token in `token_ids`. A word without a token
            has any token of its window; spans don't start or end there.
        last_token: int64 [n_words], inclusive.
        spans: candidate spans; their words are indices into `first_token`.
        runs: int64 [n_runs + 1]; run `i`, words `runs[i]:runs[i + 1]`, is the part of a sentence in one window.
        continues: bool [n_runs], whether earlier words of the run's sentence are not in the window.
        owned: bool [n_words], whether the window owns the word; other words are context.
        has_token: bool [n_words], whether the word has a token.
    """

    token_ids: Tensor
    token_offsets: np.ndarray
    first_token: Tensor
    last_token: Tensor
    spans: Spans
    runs: np.ndarray
    continues: np.ndarray
    owned: np.ndarray
    has_token: np.ndarray

    @classmethod
    def build(cls, windows: Windows, spans: Spans) -> "Batch":
        """Build a batch on the CPU.

        Args:
            windows: the windows.
            spans: their candidate spans, or some of them.
        """
        n_words = np.diff(windows.word_offsets)
        shift = np.repeat(windows.token_offsets[:-1], n_words)
        last = np.repeat(windows.token_offsets[1:] - 1, n_words)
        runs = sentence_runs(windows)
        return cls(
            token_ids=torch.from_numpy(windows.token_ids.astype(np.int64)),
            token_offsets=windows.token_offsets,
            first_token=torch.from_numpy(np.minimum(shift + windows.word_token_start, last)),
            last_token=torch.from_numpy(np.maximum(shift + windows.word_token_end - 1, shift)),
            spans=spans,
            runs=runs,
            continues=windows.word_index[runs[:-1]] > 0,
            owned=windows.word_tag,
            has_token=windows.word_token_end > windows.word_token_start,
        )

    def to(self, device: torch.device) -> "Batch":
        """Return the batch with its tensors on a device; copies to a GPU are asynchronous.

        Args:
            device: the device.
        """
        if device.type == self.token_ids.device.type:
            return self
        names = ("token_ids", "first_token", "last_token")
        tensors = (getattr(self, name) for name in names)
        if device.type == "cuda":
            tensors = (tensor.pin_memory() for tensor in tensors)
        return replace(
            self,
            **{name: tensor.to(device, non_blocking=True) for name, tensor in zip(names, tensors, strict=True)},
        )


def on_device(array: np.ndarray, device: torch.device) -> Tensor:
    """Return an array as a tensor on a device; the copy is asynchronous.

    Args:
        array: any array.
        device: the device.
    """
    return torch.from_numpy(array).to(device, non_blocking=True)

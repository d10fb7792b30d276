"""A numerical check of encoders for properties that a config does not reveal, such as embeddings that mix neighbours.

The checks in `spanmarker_core.models.encoders` only cover known kinds of encoders. This one works for any: a window's
states must equal those of the unmodified encoder, regardless of the other windows, and a span's features must be the
same with and without other spans (or, if spans attend to each other, with and without other windows). Random weights
suffice. The check takes as long as a few short sentences, so it is run when a model is created, not when it is loaded.
"""

from collections.abc import Sequence

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from spanmarker_core.bundle.pretrained import quiet_transformers
from spanmarker_core.errors import CoreError, wrap_errors
from spanmarker_core.models.batch import Batch
from spanmarker_core.models.network import SpanNetwork
from spanmarker_core.spans.candidates import Spans

#: Maximum difference between states, relative to the largest state if that is above 1.
TOLERANCE = 1e-4
#: Number of tokens per window, without special tokens; the tokens are spread over the vocabulary.
_LENGTHS = (5, 4)


def check_states(network: SpanNetwork, tokenizer: Tokenizer, prefix: Sequence[int], suffix: Sequence[int]) -> None:
    """Check that the states of windows and spans don't depend on other windows or spans.

    Args:
        network: the network with its initial weights, on a CPU, in float32.
        tokenizer: the encoder's tokenizer; one window holds all its added tokens, because they may occur in texts.
        prefix: ids of the special tokens before each window's text.
        suffix: ids of the special tokens after each window's text.

    Raises:
        CoreError: `encoder.not_independent`.
        UnusableError: the encoder's own forward pass fails.
    """
    apart = sorted(tokenizer.get_added_tokens_decoder())
    plain = np.linspace(0, tokenizer.get_vocab_size() - 1, sum(_LENGTHS), dtype=np.int64).tolist()
    first, second = plain[: _LENGTHS[0]], plain[_LENGTHS[0] :]
    windows = [[*prefix, *first, *apart, *suffix], [*prefix, *second, *suffix]]
    limit = network.encoder.config.max_position_embeddings - network.position_offset
    training = network.training
    network.eval()
    with torch.no_grad(), quiet_transformers(), wrap_errors("its own forward pass fails"):
        _compare(network, [torch.tensor(window[:limit]) for window in windows])
    network.train(training)


def _compare(network: SpanNetwork, windows: list[Tensor]) -> None:
    """Compare the states of text and spans in one batch with those computed separately."""
    # Spans at the edges of a window and inside it.
    pairs = [[(0, 0), (0, len(window) - 1), (1, 2)] for window in windows]
    together = network.encode_text(_batch(windows, pairs))
    alone = [_own_states(network, window) for window in windows]
    name = type(network.encoder).__name__
    _hold(name, "those of a text depend on other texts in the batch", together.states, torch.cat(alone))
    if not network.options.spans:
        return
    batch = _batch(windows, pairs)
    among = network.encode_spans(batch, batch.spans, together, 0, len(batch.spans))
    single = []
    for window, its_pairs in zip(windows, pairs, strict=True):
        for few in [its_pairs] if network.options.joint else [[pair] for pair in its_pairs]:
            one = _batch([window], [few])
            single.append(network.encode_spans(one, one.spans, network.encode_text(one), 0, len(few)))
    _hold(name, "those of a span depend on other spans in the batch", among, torch.cat(single))


def _hold(name: str, whose: str, found: Tensor, expected: Tensor) -> None:
    size = max(1.0, float(expected.abs().max()))
    difference = float((found - expected).abs().max())
    if not difference <= TOLERANCE * size:  # also True for NaN
        raise CoreError(
            "encoder.not_independent", encoder=name, states=whose, found=f"{difference:.2g}", limit=f"{TOLERANCE:g}"
        )


def _own_states(network: SpanNetwork, window: Tensor) -> Tensor:
    """Return the encoder's states for a window with its original attention: [n_tokens, hidden]."""
    encoder = network.encoder
    ours = encoder.config._attn_implementation
    encoder.config._attn_implementation = "eager"
    try:
        positions = torch.arange(len(window)) + network.position_offset
        return encoder(input_ids=window[None], position_ids=positions[None]).last_hidden_state[0]
    finally:
        encoder.config._attn_implementation = ours


def _batch(windows: list[Tensor], pairs: list[list[tuple[int, int]]]) -> Batch:
    """Return a batch of windows of one-token words, with spans given as (first word, last word)."""
    offsets = np.cumsum([0, *map(len, windows)])
    tokens = torch.arange(int(offsets[-1]))
    edges = np.array([pair for its_pairs in pairs for pair in its_pairs]).T
    start = np.repeat(offsets[:-1], [len(its_pairs) for its_pairs in pairs])
    counts = np.cumsum([0, *map(len, pairs)])
    spans = Spans(counts, *(edges + start), *edges.astype(np.int32))
    yes = np.ones(len(tokens), np.bool_)
    return Batch(
        torch.cat(windows), offsets, tokens, tokens, spans, offsets, np.zeros(len(windows), np.bool_), yes, yes
    )

"""Tries an encoder out by numbers: what no config says, such as embeddings that take in the tokens beside them.

`check_encoder` knows the kinds that it was told of. This holds for any: a window's states are the encoder's own,
whatever lies beside it, and a span's features are the same alone and among others; where spans see each other, alone
with those of its window. On random weights as on trained ones, in the time of a few short sentences; so it is done
where a model begins, and not whenever one is loaded.
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

#: Largest difference of two states, in parts of the largest one where that is above 1.
TOLERANCE = 1e-4
#: Tokens of each window but for special ones, spread over the vocabulary.
_LENGTHS = (5, 4)


def check_states(network: SpanNetwork, tokenizer: Tokenizer, prefix: Sequence[int], suffix: Sequence[int]) -> None:
    """Refuse an encoder whose states depend on what they must not see.

    Args:
        network: with the weights that it will have, on a CPU, in float32.
        tokenizer: the encoder's; one window holds every token that it treats apart, since texts may spell them.
        prefix, suffix: ids around each window.

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
    """Compare text and spans of windows, together and alone."""
    # Over the edges of a window and in the midst of it.
    pairs = [[(0, 0), (0, len(window) - 1), (1, 2)] for window in windows]
    together = network.encode_text(_batch(windows, pairs))
    alone = [_own_states(network, window) for window in windows]
    name = type(network.encoder).__name__
    _hold(name, "a text's, which depend on the texts beside it", together.states, torch.cat(alone))
    if not network.options.spans:
        return
    batch = _batch(windows, pairs)
    among = network.encode_spans(batch, batch.spans, together, 0, len(batch.spans))
    single = []
    for window, its_pairs in zip(windows, pairs, strict=True):
        for few in [its_pairs] if network.options.joint else [[pair] for pair in its_pairs]:
            one = _batch([window], [few])
            single.append(network.encode_spans(one, one.spans, network.encode_text(one), 0, len(few)))
    _hold(name, "a span's, which depend on the spans beside it", among, torch.cat(single))


def _hold(name: str, whose: str, found: Tensor, expected: Tensor) -> None:
    size = max(1.0, float(expected.abs().max()))
    difference = float((found - expected).abs().max())
    if not difference <= TOLERANCE * size:  # nor NaN
        raise CoreError(
            "encoder.not_independent", encoder=name, states=whose, found=f"{difference:.2g}", limit=f"{TOLERANCE:g}"
        )


def _own_states(network: SpanNetwork, window: Tensor) -> Tensor:
    """Return the states that the encoder gives a window with its own attention: [n_tokens, hidden]."""
    encoder = network.encoder
    ours = encoder.config._attn_implementation
    encoder.config._attn_implementation = "eager"
    try:
        positions = torch.arange(len(window)) + network.position_offset
        return encoder(input_ids=window[None], position_ids=positions[None]).last_hidden_state[0]
    finally:
        encoder.config._attn_implementation = ours


def _batch(windows: list[Tensor], pairs: list[list[tuple[int, int]]]) -> Batch:
    """Return windows of one-token words and the spans named by their first and last."""
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

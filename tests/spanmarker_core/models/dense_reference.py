"""A plain dense reference of span-marker: a window and its markers in one row, a square mask, eager attention."""

import numpy as np
import torch

from spanmarker_core.models.encoders import encoder_layers
from tests.spanmarker_core.models.networks import dense_encoder, masked


def figure_mask(attention, t, s):
    """Figure 3.1: text, then all start markers, then all end markers; [t + 2s, t + 2s], who sees whom."""
    seen = torch.zeros(t + 2 * s, t + 2 * s, dtype=torch.bool)
    seen[:, :t] = True
    markers, diagonal = seen[t:, t:], torch.eye(s, dtype=torch.bool)
    if attention not in ("no_diagonal", "no_self"):
        markers[:s, :s] |= diagonal
        markers[s:, s:] |= diagonal
    if attention not in ("no_diagonal", "no_partner"):
        markers[:s, s:] |= diagonal
        markers[s:, :s] |= diagonal
    if attention == "all_markers":
        markers[:] = True
    if attention == "text_to_markers":
        seen[:t, t:] = True
    return seen


def dense_logits(
    network,
    config,
    batch,
    encoder=None,
    *,
    attention="paired",
    group=128,
    positions=None,
    text_features=False,
    pair_layers=None,
):
    """Scores by transformers' own attention, a row for each window and `group` of its spans.

    In the layers below the top `pair_layers` the partner of a marker is hidden.
    """
    encoder, spans = encoder or dense_encoder(network, config).to(network.classifier.weight.dtype), batch.spans
    edges = np.stack([spans.first_token, spans.last_token], axis=1).astype(np.int64)
    positions = torch.from_numpy(edges if positions is None else positions)
    layers, masks = [] if pair_layers is None else encoder_layers(encoder, "the test"), {}

    def hide(layer, args, kwargs):
        name = next((name for name in ("attention_mask", "attn_mask") if name in kwargs), None)
        return (args, {**kwargs, name: masks["early"]}) if name else ((args[0], masks["early"], *args[2:]), kwargs)

    for layer in layers[: len(layers) - (pair_layers or 0)]:
        layer.register_forward_pre_hook(hide, with_kwargs=True)
    features = []
    for window in range(len(batch.token_offsets) - 1):
        text = batch.token_ids[batch.token_offsets[window] : batch.token_offsets[window + 1]]
        t = len(text)
        for start in range(spans.offsets[window], spans.offsets[window + 1], group):
            end = min(start + group, spans.offsets[window + 1])
            s = end - start
            ids = [*text, *[config.start_marker_id] * s, *[config.end_marker_id] * s]
            places = torch.cat([torch.arange(t), positions[start:end, 0], positions[start:end, 1]])
            masks["early"] = masked(figure_mask("no_partner", t, s))
            states = encoder(
                input_ids=torch.tensor([ids]),
                position_ids=places[None] + config.position_offset,
                attention_mask=masked(figure_mask(attention, t, s)),
            ).last_hidden_state[0]
            parts = [states[t : t + s], states[t + s :]]
            if text_features:
                parts += [states[edges[start:end, 0]], states[edges[start:end, 1]]]
            features.append(torch.cat(parts, dim=-1))
    features = torch.cat(features)
    if network.widths is not None:
        widths = network.widths.weight[torch.from_numpy(spans.last_word - spans.first_word)]
        features = torch.cat([features, widths], dim=-1)
    return network.classifier(features)

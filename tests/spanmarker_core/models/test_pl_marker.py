"""PL-Marker: the scores of span-marker with the same weights, at the cost of a padded sample a group."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from spanmarker_core.bundle.config_checks import check_config
from spanmarker_core.errors import UnusableError
from tests.spanmarker_core.models.dense_reference import dense_logits, figure_mask
from tests.spanmarker_core.models.networks import LONG, batch_of, dense_encoder, made, masked, windows_of
from tests.support.tiny import FAMILIES, tiny_model


def both(options=None, family="bert"):
    """A PL-Marker and a span-marker of the same weights."""
    config, network, packer = made(options, family, "pl_marker.v1", **LONG)
    _, plain, _ = made({"text_features": True}, family, **LONG)
    plain.load_state_dict(network.state_dict())
    return config, network, plain, packer


@pytest.mark.parametrize(
    ("family", "group"), [*((family, 3) for family in FAMILIES), *(("bert", group) for group in (1, 128, 200))]
)
def test_scores_are_those_of_span_marker(family, group):
    config, network, plain, packer = both({"group": group}, family)
    batch = batch_of(windows_of(packer), config)
    assert max(np.diff(batch.spans.offsets)) > 128
    with torch.no_grad():
        found, expected = network(batch).logits, plain(batch).logits
        reference = dense_logits(network, config, batch, text_features=True)
    assert expected.std() > 0.3
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(found, reference, atol=1e-5, rtol=0)


def test_equals_one_padded_row_a_group():
    """As PL-Marker lays it out: text to 60 tokens, 2 · 5 markers, one mask; a sample at a time."""
    config, network, packer = made({"group": 5}, architecture="pl_marker.v1", **LONG)
    encoder, batch = dense_encoder(network, config), batch_of(windows_of(packer), config)
    first, last = (torch.from_numpy(x).long() for x in (batch.spans.first_token, batch.spans.last_token))
    rows = []
    for window, (start, end) in enumerate(zip(batch.spans.offsets[:-1], batch.spans.offsets[1:], strict=True)):
        text = batch.token_ids[batch.token_offsets[window] : batch.token_offsets[window + 1]]
        t = len(text)
        for begin in range(start, end, 5):
            group = slice(begin, min(begin + 5, end))
            s = group.stop - begin
            real = [*range(t), *range(60, 60 + s), *range(65, 65 + s)]
            ids, positions = torch.zeros(1, 70, dtype=torch.long), torch.zeros(1, 70, dtype=torch.long)
            ids[0, :t], ids[0, 60 : 60 + s], ids[0, 65 : 65 + s] = text, config.start_marker_id, config.end_marker_id
            positions[0, :t] = torch.arange(t)
            positions[0, 60 : 60 + s], positions[0, 65 : 65 + s] = first[group], last[group]
            seen = torch.eye(70, dtype=torch.bool)
            seen[torch.tensor(real)[:, None], torch.tensor(real)] = figure_mask("paired", t, s)
            with torch.no_grad():
                output = encoder(input_ids=ids, position_ids=positions, attention_mask=masked(seen))
            states = output.last_hidden_state[0]
            parts = states[60 : 60 + s], states[65 : 65 + s], states[first[group]], states[last[group]]
            rows.append(torch.cat(parts, dim=-1))
    with torch.no_grad():
        expected = network.classifier(torch.cat(rows))
        torch.testing.assert_close(network(batch).logits, expected, atol=1e-5, rtol=0)


def test_its_cost_is_a_padded_sample_a_group():
    """Tokens that go through the encoder: each window's text once, and markers; or 60 + 256 for each 128 spans."""
    config, network, plain, packer = both()
    batch = batch_of(windows_of(packer), config)
    counts = {}
    for name, model in (("pl", network), ("plain", plain)):
        sizes = []
        embeddings = model.encoder.get_input_embeddings()
        embeddings.register_forward_hook(lambda module, args, output, sizes=sizes: sizes.append(args[0].numel()))
        with torch.no_grad():
            model(batch)
        counts[name] = sum(sizes)
    n_spans = np.diff(batch.spans.offsets)
    assert n_spans.tolist() == [45, 1, 27, 10, 141]
    assert counts["pl"] == (1 + 1 + 1 + 1 + 2) * (60 + 256)
    assert counts["plain"] == len(batch.token_ids) + 2 * n_spans.sum()


@pytest.mark.parametrize(
    ("options", "overrides", "reason"),
    [
        ({}, {"pair_layers": 1}, "pl_marker always pairs"),
        ({"group": 0}, {}, "group is 0, not an integer"),
        ({"attention": "paired"}, {}, "attention is not an option of this architecture"),
    ],
)
def test_refuses_what_it_has_not(options, overrides, reason):
    config, _, _ = tiny_model()
    with pytest.raises(UnusableError, match=reason):
        check_config(replace(config, architecture="pl_marker.v1", options=options, **overrides))

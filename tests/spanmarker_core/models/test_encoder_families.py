"""Encoders of every kind that transformers has for masked words: which can carry markers, and that those do it right.

docs/how-to/library.md shows the result. A kind that is accepted is trained for one step beside the dense reference, and
has to have its loss, its gradients and its scores after the step.
"""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import AutoConfig, AutoModel
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

from spanmarker_core import load
from spanmarker_core.bundle.config import packer_of
from spanmarker_core.bundle.writer import encoder_facts, save_bundle
from spanmarker_core.errors import CoreError, UnusableError
from spanmarker_core.models.encoders import check_encoder, native_position_offset
from spanmarker_core.models.span_marker import SpanMarkerModel
from spanmarker_core.training.initialise import new_model
from tests.spanmarker_core.models.dense_reference import dense_logits
from tests.spanmarker_core.models.networks import SENTENCES, batch_of, dense_encoder, windows_of
from tests.support.tiny import LABELS, tiny_model, tiny_tokenizer
from tests.support.training import SETTINGS, write_encoder
from tests.support.variants import some_by_default

WORK = (
    *("albert", "bert", "camembert", "data2vec-text", "distilbert", "electra", "ernie", "esmc", "eurobert", "gte"),
    *("jina_embeddings_v3", "nomic_bert", "roberta", "roberta-prelayernorm", "roc_bert", "xlm-roberta"),
    "xlm-roberta-xl",
)

#: What is refused, with a part of the reason.
NO_POSITIONS, OWN_ATTENTION, LOCAL, RELATIVE = (
    "does not accept position ids",
    "cannot be replaced",
    "local layers",
    "are relative",
)
REFUSED = {
    **dict.fromkeys(("bart", "funnel", "mbart", "mvp", "perceiver", "roformer"), NO_POSITIONS),
    **dict.fromkeys(
        (
            *("big_bird", "convbert", "deberta", "deberta-v2", "flaubert", "fnet", "ibert", "layoutlm", "longformer"),
            *("luke", "megatron-bert", "mpnet", "mra", "nystromformer", "reformer", "rembert", "squeezebert", "tapas"),
            *("xlm", "yoso"),
        ),
        OWN_ATTENTION,
    ),
    **dict.fromkeys(("modernbert", "neomme", "ultrabert"), LOCAL),
    **dict.fromkeys(("modernvbert", "ultravbert"), RELATIVE),
    "mobilebert": "adjacent tokens",
}
#: X-MOD is refused when it is built, since it asks for a language with each text. ESM reads proteins; its embeddings
#: multiply by the mask, so it can't be compared with a square one.
APART = {"xmod", "esm"}

#: Under whatever names a config has for them.
SIZES = {
    **dict.fromkeys(("hidden_size", "dim", "d_model", "emb_dim"), 32),
    **dict.fromkeys(("num_hidden_layers", "n_layers", "encoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_heads", "encoder_attention_heads"), 4),
    **dict.fromkeys(("intermediate_size", "hidden_dim", "encoder_ffn_dim"), 48),
    "max_position_embeddings": 80,
    "embedding_size": 24,
    "initializer_range": 0.2,
    "pad_token_id": 1,
}


def small(family, vocabulary, **more):
    default = AutoConfig.for_model(family)
    names = set(default.to_dict()) | set(getattr(default, "attribute_map", {}))
    values = {name: size for name, size in SIZES.items() if name in names} | more
    torch.manual_seed(7)
    config = AutoConfig.for_model(family, vocab_size=vocabulary, **values)
    return AutoModel.from_config(config, attn_implementation="eager").eval()


def model_of(family):
    tokenizer = tiny_tokenizer("bert")
    encoder = small(family, tokenizer.get_vocab_size() + 2)
    facts = {"position_offset": native_position_offset(encoder), "encoder": encoder_facts(encoder.config)}
    config = replace(tiny_model()[0], **facts)
    torch.manual_seed(8)
    return config, SpanMarkerModel(encoder, config).eval(), tokenizer


#: By default those whose classes differ most; the others are variants of theirs.
FAMILIES = some_by_default(WORK, ["bert", "distilbert", "electra", "eurobert", "nomic_bert", "roberta"])


@pytest.mark.parametrize("family", FAMILIES)
def test_one_step_of_training_is_that_of_the_dense_reference(family):
    config, network, tokenizer = model_of(family)
    batch = batch_of(windows_of(packer_of(config, tokenizer)), config)
    dense = dense_encoder(network, config)
    targets = torch.arange(len(batch.spans)) % len(LABELS)
    losses, gradients = [], []
    for encoder, scores in (
        (network.encoder, lambda: network(batch).logits),
        (dense, lambda: dense_logits(network, config, batch, dense)),
    ):
        network.classifier.zero_grad()
        loss = cross_entropy(scores(), targets)
        loss.backward()
        losses.append(loss.item())
        # What has no part in the states, such as a pooler, has no gradient in either.
        gradients.append({name: p.grad for name, p in encoder.named_parameters() if p.grad is not None})
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert gradients[0].keys() == gradients[1].keys()
    assert len(gradients[0]) > 15
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradient, gradients[1][name], rtol=1e-3, atol=1e-5, msg=name)
    with torch.no_grad():
        for encoder in (network.encoder, dense):
            for parameter in encoder.parameters():
                if parameter.grad is not None:
                    parameter -= 1e-4 * parameter.grad
        after = network(batch).logits
        torch.testing.assert_close(after, dense_logits(network, config, batch, dense), rtol=1e-3, atol=1e-4)
        assert losses[0] - cross_entropy(after, targets).item() > 0


def refusal(family) -> str:
    more = {"funnel": {"architectures": ["FunnelModel"]}}.get(family, {})
    with torch.device("meta"):
        encoder = AutoModel.from_config(AutoConfig.for_model(family, **more), attn_implementation="eager")
    with pytest.raises(CoreError) as caught:
        check_encoder(encoder)
    assert caught.value.code == "encoder.no_position_ids"
    return str(caught.value)


@pytest.mark.parametrize("family", ["mobilebert", "neomme", "mpnet", "deberta"])
def test_refused_with_the_reason(family):
    assert REFUSED[family] in refusal(family)


@pytest.mark.slow
def test_every_other_kind_is_refused_with_its_reason():
    assert {*WORK, *REFUSED, *APART} == set(MODEL_FOR_MASKED_LM_MAPPING_NAMES)
    for family, reason in REFUSED.items():
        assert reason in refusal(family), family
    with pytest.raises(UnusableError, match="language"):
        model_of("xmod")


def test_the_documentation_names_each_kind_where_it_belongs():
    text = (Path(__file__).parents[3] / "docs" / "how-to" / "library.md").read_text(encoding="utf-8")
    lines = text[text.index("## Encoders") :].splitlines()
    rows = [line.split("|") for line in lines if line.startswith("|")]
    named = {"work": set(), "refused": set()}
    for row in rows[2:]:
        named["work" if row[2].strip() == "yes" else "refused"] |= set(re.findall("`([^`]+)`", row[1]))
    assert named == {"work": set(WORK), "refused": {*REFUSED, *APART}}


@pytest.mark.parametrize("family", FAMILIES)
def test_from_an_encoders_folder_to_a_bundle_that_tags(family, tmp_path):
    encoder = write_encoder(tmp_path / "encoder", model=small(family, tiny_tokenizer("bert").get_vocab_size()))
    config, network, tokenizer = new_model(encoder, LABELS[1:], SETTINGS)
    save_bundle(tmp_path / "bundle", config, network, tokenizer, card="# small\n")
    model = load(tmp_path / "bundle")
    stored = network.eval().state_dict()
    assert all(torch.equal(weight, stored[name]) for name, weight in model.network.state_dict().items())
    assert model.tag_words(SENTENCES, threshold=0.05, decoder="all.v1") != [[]] * len(SENTENCES)

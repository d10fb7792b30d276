"""Networks of every architecture with the options that change what they compute, and sentences for them."""

from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModel

from spanmarker_core.bundle.config import ModelConfig, packer_of
from spanmarker_core.models.batch import Batch
from spanmarker_core.models.network import SpanNetwork
from spanmarker_core.spans.candidates import candidate_spans
from spanmarker_core.windows.packer import Context, Packer, Windows
from tests.support.tiny import GATE, tiny_model

SENTENCES = [
    ["Barack", "Obama", "flew", "to", "Paris", "on", "the", "4th", "of", "May"],
    ["Zürich"],
    ["he", "was", "in", "New", "York", "for", "it"],
    ["the", "city", "of", "London"],
    list("abcdefghijklmnopqrstuvwxyz"),
]
#: Words without a token too, within spans.
WITH_EMPTY = [*SENTENCES, ["New", "\u2063", "York", "\u2063", "\u2063", "London"]]
#: With these, a sentence has more spans than fit one sample of 128.
LONG = {"entity_max_length": 6, "max_tokens": 60}

#: Where spans of a sample see each other.
JOINT = ("text_to_markers", "all_markers")
#: Options of span_marker.v1: one of each, and together.
MARKER_OPTIONS = [
    {"attention": "text_to_markers"},
    {"attention": "text_to_markers", "group": 3, "text_features": True},
    {"attention": "no_diagonal"},
    {"attention": "no_self"},
    {"attention": "no_partner"},
    {"attention": "all_markers"},
    {"attention": "all_markers", "group": 3, "positions": "random"},
    {"positions": "random"},
    {"width_size": 8},
    {"text_features": True},
    {"attention": "no_self", "positions": "random", "width_size": 3, "text_features": True},
]
SPAN_NER_OPTIONS = [
    {"representation": representation, "word": word, "mlp_layers": layers, "width_size": 5}
    for representation, word, layers in product(("boundary", "pooling", "hybrid"), ("max", "edges"), (1, 2))
    if (representation, word) != ("pooling", "max")  # refused: it has no edges
]
#: Options of dspert.v1 that change the computation of its layers, each once.
DSPERT_OPTIONS = [
    {},
    {"share_weights": True},
    {"span_layers": 1, "aggregation": "additive"},
    {"span_layers": 1, "share_weights": True, "lstm": 0},
    {"aggregation": "multiplicative", "lstm": 0, "ffn": 0},
    {"aggregation": "mean", "width_size": 0},
    {"span_layers": 0},
    {"span_layers": 0, "lstm": 0, "ffn": 0, "width_size": 0, "aggregation": "multiplicative"},
]
_SIZES = {"lstm": 16, "ffn": 12, "width_size": 5}


class Case(NamedTuple):
    """A network's architecture, its options, and fields of its config."""

    architecture: str
    options: dict[str, object]
    fields: dict[str, object]

    def __str__(self) -> str:
        named = ",".join(f"{name}={value}" for name, value in {**self.options, **self.fields}.items())
        return f"{self.architecture.partition('.')[0]}({named})"

    def build(self, **more: object) -> tuple[ModelConfig, SpanNetwork, Packer]:
        return made(self.options, architecture=self.architecture, **{**self.fields, **more})


def case(architecture: str, options: dict[str, object] | None = None, **fields: object) -> Case:
    return Case(architecture, options or {}, fields)


#: Networks whose entities come from tags, and those that carry a head of tags beside their spans.
TAGGED = [
    case("seq_ner.v1"),
    case("seq_ner.v1", {"tags": "crf"}),
    case("bl_ner.v1", {"output": "tags"}),
    case("bl_ner.v1", {"output": "tags", "tags": "crf"}),
    case("span_marker.v1", {"output": "tags", "tags": "crf"}),
]
BUNDLED = [
    case("bl_ner.v1"),
    case("bl_ner.v1", {"tags": "crf", "representation": "boundary"}),
    case("span_ner.v1", {"tags": "softmax"}),
    case("span_marker.v1", {"tags": "crf"}),
]
FEATURES = {"text_features": True, "width_size": 3}
GATED = [
    *(case("span_marker.v1", pair_layers=layers, gate=GATE) for layers in (None, 0, 1, 2)),
    *(case("span_marker.v1", FEATURES, pair_layers=layers, gate=GATE) for layers in (0, 1)),
    case("pl_marker.v1", {"group": 4}, gate=GATE),
    case("span_ner.v1", gate=GATE),
    case("span_ner.v1", gate={**GATE, "ends": False}),
    case("dspert.v1", {"lstm": 0}, gate=GATE),
    case("dspert.v1", {"span_layers": 0}, gate=GATE),
    case("bl_ner.v1", gate=GATE),
]
NETWORKS = [
    case("span_marker.v1"),
    *(case("span_marker.v1", pair_layers=layers) for layers in (0, 1)),
    *(case("span_marker.v1", options) for options in MARKER_OPTIONS),
    *(case("pl_marker.v1", options) for options in ({"group": 8}, {})),
    *(case("span_ner.v1", options) for options in SPAN_NER_OPTIONS),
    *(case("dspert.v1", options) for options in DSPERT_OPTIONS),
    *TAGGED,
    *BUNDLED,
]


def made(
    options: dict[str, object] | None = None,
    family: str = "bert",
    architecture: str = "span_marker.v1",
    **fields: object,
) -> tuple[ModelConfig, SpanNetwork, Packer]:
    """Return a tiny network with its config and its packer; what begins alike or at zero is as after training."""
    options = {**(_SIZES if architecture == "dspert.v1" else {}), **(options or {})}
    config, network, tokenizer = tiny_model(family, architecture=architecture, options=options, **fields)
    torch.manual_seed(11)
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if name.startswith("span_transformer."):  # apart from the encoder
                weight += 0.1 * torch.randn_like(weight)
            elif name in ("widths.weight", "tags.crf.transitions"):
                weight.normal_(std=0.5)
            elif name == "tags.output.bias":
                weight.zero_()
    return config, network, packer_of(config, tokenizer)


def windows_of(packer: Packer, sentences: list[list[str]] = SENTENCES) -> Windows:
    """Pack sentences with their neighbours as context."""
    return packer.pack(packer.encode_words(sentences), Context("document", 1, 1))


def batch_of(windows: Windows, config: ModelConfig) -> Batch:
    return Batch.build(windows, candidate_spans(windows, config.entity_max_length))


def dense_encoder(network: SpanNetwork, config: ModelConfig) -> torch.nn.Module:
    """Return the network's encoder with transformers' own attention."""
    values = dict(config.encoder)
    encoder = AutoModel.from_config(
        AutoConfig.for_model(values.pop("model_type"), **values), attn_implementation="eager"
    ).eval()
    if hasattr(encoder, "pooler"):
        encoder.pooler = None
    encoder.load_state_dict(network.encoder.state_dict())
    return encoder


def masked(seen: Tensor) -> Tensor:
    """Return the additive attention mask [1, 1, n, n] of a boolean one."""
    return torch.where(seen, 0.0, torch.finfo(torch.float32).min)[None, None]

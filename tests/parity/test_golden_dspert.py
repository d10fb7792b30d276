"""DSpERT and its shallow baselines against what the authors' eznlp 0.4.0 gives with the same weights (README.md)."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import RobertaConfig, RobertaModel

from spanmarker_core.bundle.config import ModelConfig
from spanmarker_core.bundle.writer import encoder_facts
from spanmarker_core.models.batch import Batch
from spanmarker_core.models.dspert import DSpERT
from spanmarker_core.spans.candidates import Spans

GOLDEN = Path(__file__).parent / "golden-dspert"
FACTS = json.loads((GOLDEN / "golden.json").read_text(encoding="utf-8"))
#: Prefix of eznlp's names for weights -> ours; the longer ones first.
NAMES = {
    "bert_like.bert_like.": "encoder.",
    "span_bert_like.query_bert_like.layer.": "span_transformer.layers.",
    "span_bert_like.init_aggregating.proj_layer.": "aggregation.project.",
    "decoder.aggregating.proj_layer.": "aggregation.project.",
    "intermediate2.rnn.": "lstms.0.",
    "span_intermediate2.rnn.": "lstms.1.",
    "decoder.size_embedding.": "widths.",
    "decoder.hid2logit.": "classifier.",
}


def carried_over(weights: dict, additive: bool) -> dict:
    """eznlp's weights under our names; its query is our u, or in additive attention our v, and its w2 our u."""
    ours = {}
    for name, weight in weights.items():
        if name.endswith((".query", ".w2")):
            ours["aggregation.v" if additive and name.endswith(".query") else "aggregation.u"] = weight
        else:
            prefix = next(prefix for prefix in NAMES if name.startswith(prefix))
            ours[NAMES[prefix] + name.removeprefix(prefix)] = weight
    return ours


def network_of(case: dict, weights: dict) -> DSpERT:
    words = weights["bert_like.bert_like.embeddings.word_embeddings.weight"]
    widths = weights["decoder.size_embedding.weight"]
    config = RobertaConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=24,
        max_position_embeddings=20,
        type_vocab_size=1,
    )
    kind = (case.get("init_agg_mode") or case["agg_mode"]).partition("_")[0]
    options = {
        "span_layers": 0 if "agg_mode" in case else case.get("num_layers"),
        "aggregation": kind,
        "share_weights": case.get("share", False),
        "lstm": 8 if case.get("lstm") else 0,
        "ffn": 0,
        "width_size": widths.shape[1],
    }
    made = ModelConfig(
        labels=FACTS["labels"],
        outside="<none>",
        entity_max_length=len(widths),
        max_tokens=16,
        position_offset=2,
        prefix=[0],
        suffix=[2],
        unknown_id=3,
        start_marker_id=None,
        end_marker_id=None,
        encoder=encoder_facts(config),
        architecture="dspert.v1",
        options=options,
    )
    network = DSpERT(RobertaModel(config, add_pooling_layer=False), made).eval()
    network.load_state_dict(carried_over(weights, kind == "additive"))
    return network


def batch_of(sentences: list[list[int]], longest: int) -> Batch:
    """Each sentence in a window of its own, between <s> and </s>; all spans of up to `longest` words."""
    tokens = [torch.tensor([0, *words, 2]) for words in sentences]
    token_offsets = np.cumsum([0, *map(len, tokens)])
    word_offsets = np.cumsum([0, *map(len, sentences)])
    pairs = [[(i, j) for i in range(len(w)) for j in range(i, min(i + longest, len(w)))] for w in sentences]
    offsets = np.cumsum([0, *map(len, pairs)])
    first, last = np.array([pair for its_pairs in pairs for pair in its_pairs]).T
    start = np.repeat(word_offsets[:-1], np.diff(offsets))
    spans = Spans(offsets, first + start, last + start, first + 1, last + 1)
    places = torch.cat([torch.arange(1, len(ids) - 1) + at for ids, at in zip(tokens, token_offsets, strict=False)])
    yes, whole = np.ones(len(places), np.bool_), np.zeros(len(sentences), np.bool_)
    return Batch(torch.cat(tokens), token_offsets, places, places, spans, word_offsets, whole, yes, yes)


@pytest.mark.parametrize("name", FACTS["cases"])
def test_logits_are_those_of_the_authors_code(name):
    case = FACTS["cases"][name]
    stored = load_file(GOLDEN / f"{name}.safetensors")
    weights = {key: weight for key, weight in stored.items() if not key.startswith("logits.")}
    network = network_of(case["eznlp"], weights)
    longest = network.widths.num_embeddings
    batch = batch_of(case["words"], longest)
    with torch.no_grad():
        found = network(batch).logits
    for number, words in enumerate(case["words"]):
        rows = slice(batch.spans.offsets[number], batch.spans.offsets[number + 1])
        width = batch.spans.last_word[rows] - batch.spans.first_word[rows]
        by_width = np.lexsort((batch.spans.first_word[rows], width))
        expected = stored[f"logits.{number}"]
        assert len(expected) == sum(len(words) - size for size in range(min(longest, len(words))))
        torch.testing.assert_close(found[rows][by_width], expected, atol=1e-5, rtol=1e-5)

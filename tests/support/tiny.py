"""Tiny random models with real tokenizers of each family, made in a blink and always the same."""

import string
from dataclasses import replace
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import AutoConfig, AutoModel

from spanmarker_core.architectures.registry import ARCHITECTURES, architecture
from spanmarker_core.bundle.config import ModelConfig
from spanmarker_core.bundle.writer import encoder_facts, save_bundle
from spanmarker_core.models.encoders import native_position_offset
from spanmarker_core.models.gate import Gate
from spanmarker_core.models.network import SpanNetwork
from spanmarker_core.training.initialise import special_tokens

FAMILIES = ("bert", "roberta", "xlm-roberta", "electra", "distilbert")
#: A gate that turns away about half of the words.
GATE = {"trained": "fitted", "width": 16, "threshold": 0.5, "curve": []}
LABELS = ["O", "location", "person", "work"]
#: Config values of architectures without markers.
NO_MARKERS = {"start_marker_id": None, "end_marker_id": None}
_WORDS = "the a of and in to was is flew paris london müller zürich obama barack new york he she it on for at"


def tiny_tokenizer(family: str) -> Tokenizer:
    """WordPiece, byte-level BPE or Unigram over a few words and single characters."""
    letters = string.ascii_letters + string.digits + string.punctuation + "äöüßéèñçø"
    if family in ("bert", "electra", "distilbert"):
        pieces = [
            "[PAD]",
            "[UNK]",
            "[CLS]",
            "[SEP]",
            "[MASK]",
            *_WORDS.split(),
            *letters,
            *("##" + c for c in letters),
        ]
        tokenizer = Tokenizer(models.WordPiece({p: i for i, p in enumerate(dict.fromkeys(pieces))}, unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=False)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
        return tokenizer
    if family == "roberta":
        pieces = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
        pieces += ["Ġt", "Ġth", "Ġthe", "Ġo", "Ġof"]
        merges = [("Ġ", "t"), ("Ġt", "h"), ("Ġth", "e"), ("Ġ", "o"), ("Ġo", "f")]
        tokenizer = Tokenizer(models.BPE({p: i for i, p in enumerate(pieces)}, merges, unk_token="<unk>"))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
        return tokenizer
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "▁", *("▁" + w for w in _WORDS.split()), *letters]
    scored = [(p, -1.0 if len(p) > 1 else -5.0) for p in dict.fromkeys(pieces)]
    tokenizer = Tokenizer(models.Unigram(scored, unk_id=3))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return tokenizer


def tiny_encoder(family: str, vocabulary: int, positions: int = 80, seed: int = 7) -> torch.nn.Module:
    """A random two-layer encoder whose states differ enough to give every label somewhere."""
    size = {"vocab_size": vocabulary, "max_position_embeddings": positions, "initializer_range": 0.2}
    if family == "distilbert":
        size |= {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48}
    else:
        size |= {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    if family == "electra":
        size |= {"embedding_size": 24}
    if family in ("roberta", "xlm-roberta"):
        size |= {"pad_token_id": 1, "type_vocab_size": 1}
    torch.manual_seed(seed)
    return AutoModel.from_config(AutoConfig.for_model(family, **size)).eval()


def tiny_model(family: str = "bert", **overrides: object) -> tuple[ModelConfig, SpanNetwork, Tokenizer]:
    """A config, a random network and a tokenizer; `overrides` are fields of ModelConfig."""
    tokenizer = tiny_tokenizer(family)
    start_marker = tokenizer.get_vocab_size()
    encoder = tiny_encoder(family, vocabulary=start_marker + 2)
    prefix, suffix = special_tokens(tokenizer)
    offset = native_position_offset(encoder)
    values = {
        "labels": LABELS,
        "entity_max_length": 4,
        "max_tokens": 48,
        "position_offset": offset,
        "prefix": prefix,
        "suffix": suffix,
        "unknown_id": tokenizer.token_to_id("[UNK]") or tokenizer.token_to_id("<unk>"),
        "start_marker_id": start_marker,
        "end_marker_id": start_marker + 1,
        "encoder": encoder_facts(encoder.config),
    }
    if not ARCHITECTURES[overrides.get("architecture", "span_marker.v1")].options.markers:
        values |= NO_MARKERS
    config = ModelConfig(**{**values, **overrides})
    network = architecture(config.architecture)(encoder, replace(config, gate=None))
    # Most spans and words are no entity, as in life.
    heads = [network.classifier] if hasattr(network, "classifier") else []
    for linear in heads if network.tags is None else [*heads, network.tags.output]:
        torch.nn.init.normal_(linear.weight, std=0.4)
        with torch.no_grad():
            linear.bias[0] = 2.5
    if config.gate is not None:  # Last, so that the rest of the model is the same without one.
        network.gate = Gate(encoder.config.hidden_size, config.gate["width"], config.gate.get("ends", True))
        torch.nn.init.normal_(network.gate.output.weight, std=0.5)
    return config, network.eval(), tokenizer


def tiny_bundle(path: Path, family: str = "bert", **overrides: object) -> Path:
    """Write a tiny model as a bundle and return its folder."""
    config, network, tokenizer = tiny_model(family, **overrides)
    save_bundle(path, config, network, tokenizer, card="# tiny\n\nMade with spanmarker-pipelines.\n")
    return path


def short_of_memory(model, monkeypatch, limit, message="CUDA out of memory. Tried to allocate 2.00 GiB."):
    """Make the network fail on batches of more than `limit` text tokens; return the sizes that it is asked for."""
    sizes, forward = [], model.network.forward

    def limited(batch, *args):
        sizes.append(len(batch.token_ids))
        if sizes[-1] > limit:
            raise torch.OutOfMemoryError(message) if message.startswith("CUDA") else RuntimeError(message)
        return forward(batch, *args)

    monkeypatch.setattr(model.network, "forward", limited)
    return sizes

"""Tiny checkpoints as `span_marker` saves them. Runs in the library's own environment (transformers 4).

Vocabularies of a few hundred tokens, trained on `golden_inputs.TRAINING_TEXTS` with the normaliser, the
pre-tokenizer and the special tokens of the published encoders; weights drawn wide (a fresh BERT's 0.02
would give every span nearly the same scores, and a test that cannot fail).
"""

import math
import os
from pathlib import Path

import torch
from golden_inputs import TRAINING_TEXTS
from span_marker import SpanMarkerModel
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig,
    BertModel,
    BertTokenizerFast,
    ElectraConfig,
    ElectraModel,
    ElectraTokenizerFast,
    RobertaConfig,
    RobertaModel,
    RobertaTokenizerFast,
    XLMRobertaConfig,
    XLMRobertaModel,
    XLMRobertaTokenizerFast,
)

WINDOW = 128  # tokens, [CLS] and [SEP] with them
MARKERS = 16  # spans that a sample holds beyond the room its window leaves
ENTITY_MAX_LENGTH = 5  # words

# Labels in the forms the library takes: plain with the outside label first, last, and two tag schemes.
# The seeds are ones for which no two scores are so close that the order of greedy decoding hangs on rounding.
FAMILIES = {
    "bert": {
        "labels": ["O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC"],
        "safetensors": False,
        "seed": 3,
    },
    "roberta": {"labels": ["O", "person", "organisation", "place", "event"], "safetensors": True, "seed": 2},
    "xlm-roberta": {"labels": ["LOC", "MISC", "ORG", "PER", "O"], "safetensors": False, "seed": 1},
    "electra": {
        "labels": ["O"] + [f"{tag}-{name}" for name in ("PER", "LOC", "ORG") for tag in "BIES"],
        "safetensors": True,
        "seed": 1,
    },
}
# As if trained on documents; `record` sets the two limits of a case before it predicts.
DOCUMENT_CONTEXT = {"electra": {"max_prev_context": 2, "max_next_context": 1}}

SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": WINDOW + 12,
}


def frequent_pieces(normalizer, pre_tokenizer, size: int) -> tuple[list[str], list[str]]:
    """Pieces of the words of the training texts, sorted, and those words.

    Found by BPE, for WordPiece and Unigram too: those two trainers give another vocabulary at every run.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
    tokenizer.train_from_iterator(TRAINING_TEXTS, trainers.BpeTrainer(vocab_size=size, show_progress=False))
    normalized = [normalizer.normalize_str(text) for text in TRAINING_TEXTS]
    words = [word for text in normalized for word, _ in pre_tokenizer.pre_tokenize_str(text)]
    return sorted(tokenizer.get_vocab()), words


def wordpiece(lowercase: bool) -> Tokenizer:
    normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    pieces, words = frequent_pieces(normalizer, pre_tokenizer, 350)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    # Characters seen once stay unknown, as rare ones are in practice.
    pieces = [piece for piece in pieces if sum(word.count(piece) for word in words) > 1]
    starts = [piece for piece in pieces if any(word.startswith(piece) for word in words)]
    insides = ["##" + piece for piece in pieces if any(piece in word[1:] for word in words)]
    vocabulary = {token: index for index, token in enumerate(special + starts + insides)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def byte_level_bpe() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TRAINING_TEXTS, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return tokenizer


def unigram() -> Tokenizer:
    # In place of the published Precompiled table (300 kB): the rules that table was compiled from.
    normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    pieces, words = frequent_pieces(normalizer, pre_tokenizer, 450)
    counts = {piece: sum(word.count(piece) for word in words) for piece in pieces}
    total = sum(counts.values())
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    vocabulary = [(token, 0.0) for token in special]
    vocabulary += [(piece, math.log(count / total)) for piece, count in counts.items()] + [("<mask>", 0.0)]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=special.index("<unk>"), byte_fallback=False))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return tokenizer


def encoder_parts(family: str) -> tuple:
    """The configuration class with its arguments, the model class and the tokenizer of `family`."""
    if family == "bert":
        tokenizer = BertTokenizerFast(tokenizer_object=wordpiece(lowercase=False), do_lower_case=False)
        return BertConfig, BertModel, tokenizer, {}
    if family == "electra":
        # The published small models, too, have embeddings narrower than the hidden size.
        tokenizer = ElectraTokenizerFast(tokenizer_object=wordpiece(lowercase=True))
        return ElectraConfig, ElectraModel, tokenizer, {"embedding_size": 16}
    mask = AddedToken("<mask>", lstrip=True, special=True)
    ids = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "type_vocab_size": 1}
    if family == "roberta":
        tokenizer = RobertaTokenizerFast(tokenizer_object=byte_level_bpe(), mask_token=mask)
        return RobertaConfig, RobertaModel, tokenizer, ids
    tokenizer = XLMRobertaTokenizerFast(tokenizer_object=unigram(), mask_token=mask)
    return XLMRobertaConfig, XLMRobertaModel, tokenizer, ids


def draw_weights(model: torch.nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        spread = 0.1  # biases, and layer norms around 1
        if weight.dim() == 2:
            spread = 1.0 if "embeddings." in name else 0.35
        if "position_embeddings" in name:
            spread = 1.5  # spans of one sentence differ by little else
        if name == "classifier.weight":
            spread = 0.35
        drawn = torch.randn(weight.shape, generator=generator) * spread
        weight.data.copy_(1 + drawn if "LayerNorm.weight" in name else drawn)


def balance_labels(model: SpanMarkerModel) -> None:
    """Set the classifier's bias so that over the training texts the mean logit of every label is 0.

    A drawn encoder gives all markers much in common, which would make one label win nearly everywhere.
    """
    seen = []

    def keep(_, given: tuple, __) -> None:
        seen.append(given[0][given[0].abs().sum(-1) > 0])  # rows of zeros pad the shorter samples

    hook = model.classifier.register_forward_hook(keep)
    model.predict(TRAINING_TEXTS)
    hook.remove()
    with torch.no_grad():
        model.classifier.bias.copy_(-model.classifier.weight @ torch.cat(seen).mean(0))


def save_checkpoint(family: str, folder: Path) -> SpanMarkerModel:
    """Save a checkpoint of `family` in `folder` and return it as the library loads it from there.

    The working directory must be a scratch one: the library writes the encoder's name into the
    checkpoint and, at loading, takes the tokenizer and the encoder's configuration from that name,
    so the encoder is saved under a bare name here.
    """
    recipe = FAMILIES[family]
    name = f"tiny-{family}"
    config_class, model_class, tokenizer, more = encoder_parts(family)
    tokenizer.model_max_length = WINDOW
    tokenizer.save_pretrained(name)
    torch.manual_seed(0)
    model_class(config_class(vocab_size=len(tokenizer), **SMALL, **more)).save_pretrained(name)

    lengths = {"marker_max_length": MARKERS, "entity_max_length": ENTITY_MAX_LENGTH}
    if family != "electra":  # there the limit comes from the tokenizer
        lengths["model_max_length"] = WINDOW
    context = DOCUMENT_CONTEXT.get(family, {})
    model = SpanMarkerModel.from_pretrained(name, labels=recipe["labels"], **lengths, **context)
    model.config.trained_with_document_context = bool(context)
    draw_weights(model, recipe["seed"])
    balance_labels(model)
    model.save_pretrained(folder, safe_serialization=recipe["safetensors"])
    os.remove(folder / "README.md")  # a model card for people
    return SpanMarkerModel.from_pretrained(str(folder))

"""Make the golden files in `golden-dspert/`: tiny models of eznlp 0.4.0, by the authors of DSpERT, and their logits.

    python -m venv .venv-eznlp
    .venv-eznlp/bin/pip install -r tests/parity/requirements-eznlp.txt
    .venv-eznlp/bin/pip install --no-deps eznlp==0.4.0
    .venv-eznlp/bin/python tests/parity/golden_dspert.py

README.md beside this file says what they hold.
"""

import json
import sys
from pathlib import Path
from unittest.mock import MagicMock

import torch
import transformers
from safetensors.torch import save_file
from transformers import RobertaConfig, RobertaModel

# eznlp imports these for Chinese, plots and spreadsheets; nothing here calls them.
for name in ("hanziconv", "jieba", "matplotlib", "nltk", "pandas", "spacy", "torchvision", "truecase"):
    sys.modules[name] = MagicMock()

import eznlp  # noqa: E402
from eznlp.model import (  # noqa: E402
    BertLikeConfig,
    EncoderConfig,
    ExtractorConfig,
    SpanBertLikeConfig,
    SpanClassificationDecoderConfig,
    SpecificSpanClsDecoderConfig,
    SpecificSpanExtractorConfig,
)
from eznlp.nn.functional import seq_lens2mask  # noqa: E402
from eznlp.wrapper import Batch  # noqa: E402

OUTPUT = Path(__file__).resolve().parent / "golden-dspert"
LABELS = ["<none>", "location", "person"]
#: Words of one token each, so that it does not matter how sub-words become words.
LENGTHS = (9, 5, 1, 12)
VOCABULARY, MAX_SPAN_SIZE, SIZE_DIM, LSTM = 40, 5, 6, 8
#: Options of ours that say the same -> what eznlp is told.
CASES = {
    "separate": {"init_agg_mode": "max_pooling", "lstm": True},
    "shared": {"init_agg_mode": "max_pooling", "lstm": True, "share": True},
    "partial": {"init_agg_mode": "additive_attention", "num_layers": 1},
    "multiplicative": {"init_agg_mode": "multiplicative_attention"},
    "mean": {"init_agg_mode": "mean_pooling", "num_layers": 2},
    "shallow_max": {"agg_mode": "max_pooling", "lstm": True},
    "shallow_mean": {"agg_mode": "mean_pooling"},
    "shallow_multiplicative": {"agg_mode": "multiplicative_attention", "lstm": True},
    "shallow_additive": {"agg_mode": "additive_attention"},
}


class NoTokenizer:
    """Token ids are given, so no tokenizer is asked for anything."""


def model_of(case: dict) -> torch.nn.Module:
    """A model of three layers with wide random weights, as the authors' script sets it up."""
    config = RobertaConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=24,
        max_position_embeddings=20,
        type_vocab_size=1,
        attn_implementation="eager",
    )
    encoder = RobertaModel(config, add_pooling_layer=False)
    deep = "agg_mode" not in case
    bert = BertLikeConfig(
        tokenizer=NoTokenizer(), bert_like=encoder, freeze=False, from_subtokenized=True, output_hidden_states=deep
    )
    lstm = EncoderConfig(arch="LSTM", hid_dim=LSTM, num_layers=1) if case.get("lstm") else None
    size = LSTM if lstm else config.hidden_size
    known = {
        "idx2label": LABELS,
        "max_span_size": MAX_SPAN_SIZE,
        "max_len": max(LENGTHS),
        "overlapping_level": 2,
        "size_emb_dim": SIZE_DIM,
        "in_dim": size,
    }
    if lstm is not None:
        lstm.in_dim = config.hidden_size
    if deep:
        decoder = SpecificSpanClsDecoderConfig(**known)
        span_encoder = SpanBertLikeConfig(
            bert_like=encoder,
            freeze=False,
            num_layers=case.get("num_layers"),
            min_span_size=2,
            max_span_size=MAX_SPAN_SIZE,
            share_weights_ext=case.get("share", False),
            init_agg_mode=case["init_agg_mode"],
        )
        model = SpecificSpanExtractorConfig(
            decoder=decoder,
            bert_like=bert,
            span_bert_like=span_encoder,
            intermediate2=lstm,
            share_interm2=case.get("share", False),
        )
    else:
        decoder = SpanClassificationDecoderConfig(agg_mode=case["agg_mode"], **known)
        model = ExtractorConfig(decoder=decoder, ohots=None, bert_like=bert, intermediate2=lstm)
    decoder.max_size_id = MAX_SPAN_SIZE - 1
    made = model.instantiate().eval()
    with torch.no_grad():
        for weight in made.parameters():
            weight.normal_(std=0.5)
        made.decoder.hid2logit.weight.normal_()
        made.decoder.hid2logit.bias.zero_()
    return made


def answers(case: dict, words: list[torch.Tensor]) -> tuple[dict[str, torch.Tensor], list[torch.Tensor]]:
    """A model's weights, and its logits of each sentence: of all spans of one word, then of two, …, by their start."""
    model = model_of(case)
    lengths = torch.tensor(LENGTHS)
    ids = torch.full((len(words), max(LENGTHS) + 2), 1)
    for row, text in zip(ids, words, strict=True):
        row[0], row[len(text) + 1] = 0, 2
        row[1 : len(text) + 1] = text
    bert_like = {"sub_tok_ids": ids, "sub_mask": seq_lens2mask(lengths + 2)}
    batch = Batch(seq_lens=lengths, mask=seq_lens2mask(lengths), bert_like=bert_like)
    with torch.no_grad():
        logits = model.decoder.get_logits(batch, **model.forward2states(batch))
    # A shared weight has two names, and buffers of span sizes are no weights.
    there, weights = set(), {}
    for name, weight in model.state_dict().items():
        if "_ids" not in name and weight.data_ptr() not in there:
            there.add(weight.data_ptr())
            weights[name] = weight.contiguous()
    return weights, logits


def write(name: str, case: dict) -> dict:
    """Write the weights of a case and its logits; return what is needed to read them."""
    # The first seed with which every label is somewhere the best, so that a comparison can fail.
    for seed in range(100):
        torch.manual_seed(seed)
        words = [torch.randint(4, VOCABULARY, (length,)) for length in LENGTHS]
        weights, logits = answers(case, words)
        together = torch.cat(logits)
        if together.std() > 0.5 and together.argmax(dim=1).bincount(minlength=len(LABELS)).min() > 4:
            break
    rows = {f"logits.{number}": rows for number, rows in enumerate(logits)}
    save_file({**weights, **rows}, str(OUTPUT / f"{name}.safetensors"))
    return {"eznlp": case, "seed": seed, "words": [text.tolist() for text in words]}


def main() -> None:
    OUTPUT.mkdir(exist_ok=True)
    torch.set_num_threads(1)
    made_with = {"eznlp": eznlp.__version__, "transformers": transformers.__version__, "torch": torch.__version__}
    cases = {name: write(name, case) for name, case in CASES.items()}
    lines = [f"  {json.dumps(name)}: {json.dumps(case)}" for name, case in cases.items()]
    head = f'{{\n "made_with": {json.dumps(made_with)},\n "labels": {json.dumps(LABELS)},\n "cases": {{\n'
    (OUTPUT / "golden.json").write_text(head + ",\n".join(lines) + "\n }\n}\n", encoding="utf-8")
    for path in OUTPUT.iterdir():
        path.chmod(0o644)


if __name__ == "__main__":
    main()

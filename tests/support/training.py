"""What tiny trainings need: an encoder's folder, sentences that can be learned, settings."""

import json
import shutil
from itertools import product
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast, TrainerCallback

from spanmarker_core.data import Sentence, Span
from spanmarker_core.training import TrainingSettings, train
from tests.support.tiny import tiny_encoder, tiny_tokenizer

NAMES = {"obama": "person", "barack": "person", "paris": "location", "london": "location", "zürich": "location"}
PATTERNS = ["{} flew to {}", "he was in {} for {}"]
SETTINGS = TrainingSettings(
    entity_max_length=3, max_tokens=48, learning_rate=3e-3, batch_size=16, epochs=6, seed=3, device="cpu"
)
#: Steps of 8, 8, 8, 8, 8, 8 and 2 windows: 7 an epoch.
RUN = SETTINGS.replace(batch_size=8, epochs=3)
#: Names of a tokenizer's special tokens, and what BERT and RoBERTa call them.
_SPECIAL = {
    "unk_token": ("[UNK]", "<unk>"),
    "cls_token": ("[CLS]", "<s>"),
    "sep_token": ("[SEP]", "</s>"),
    "pad_token": ("[PAD]", "<pad>"),
    "mask_token": ("[MASK]", "<mask>"),
}


def quiet(line: str) -> None:
    """Log nothing."""


def sentences() -> list[Sentence]:
    """Make sentences in which the name says the label; two names together are one longer entity."""
    made = []
    for first, second in product(NAMES, repeat=2):
        for number, pattern in enumerate(PATTERNS):
            words = pattern.format(first, second).split()
            entities = [Span(i, i + 1, NAMES[word]) for i, word in enumerate(words) if word in NAMES]
            made.append(Sentence(f"{first}-{second}", number, words, entities))
    return made


def write_encoder(
    path: Path, family: str = "bert", model: torch.nn.Module | None = None, tokenizer: Tokenizer | None = None
) -> Path:
    """Write an encoder as transformers does; by default the tiny one of a family."""
    tokenizer = tokenizer or tiny_tokenizer(family)
    special = {
        name: token for name, tokens in _SPECIAL.items() for token in tokens if tokenizer.token_to_id(token) is not None
    }
    (model or tiny_encoder(family, vocabulary=tokenizer.get_vocab_size())).save_pretrained(path)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(path)
    return path


def calm(encoder: Path, path: Path) -> Path:
    """Copy an encoder, without its dropout."""
    shutil.copytree(encoder, path)
    config = json.loads((path / "config.json").read_text())
    dropout = ("hidden_dropout_prob", "attention_probs_dropout_prob")
    assert [config[name] for name in dropout] == [0.1, 0.1]
    (path / "config.json").write_text(json.dumps(config | dict.fromkeys(dropout, 0.0)))
    return path


class Losses(TrainerCallback):
    """Keeps the loss of each step."""

    def __init__(self) -> None:
        self.losses: list[float] = []

    def on_step_end(self, args, state, control, **kwargs):
        control.should_log = True

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in logs:
            self.losses.append(logs["loss"])


def losses(folder: Path, encoder: Path, settings: TrainingSettings, data: list[Sentence] | None = None) -> list[float]:
    """Train, and return the loss of each step."""
    kept = Losses()
    data = data or sentences()
    train(data, data[:10], encoder, folder, settings, log=quiet, callbacks=[kept])
    return kept.losses

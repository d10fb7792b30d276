"""Trains a model on annotated sentences, evaluates it, and tags with it, in half a minute of CPU time.

The data are 150 short sentences of the NCBI Disease corpus, and the encoder is that of the bundled model, so nothing is
downloaded. A real training takes thousands of sentences, more epochs and an encoder such as
"google-bert/bert-base-cased". Prints the scores on dev and test, and the diseases of a sentence.
"""

import tempfile
from pathlib import Path

from transformers import PreTrainedTokenizerFast

from spanmarker_core import load
from spanmarker_core.data import Sentence, read_annotated
from spanmarker_core.training import TrainingSettings, train

DATA = Path("infra/bench/data/ncbi_disease")
SETTINGS = TrainingSettings(
    gate=True,  # learns which words start and end entities: much faster than scoring every span
    entity_max_length=4,
    max_tokens=128,
    learning_rate=7e-4,  # a small encoder; about 5e-5 for larger ones
    batch_size=8,
    epochs=2,
    encoder_layers=3,  # of six, for speed
    tune_threshold=True,
    device="cpu",
    seed=1,
)


def write_encoder(folder: Path) -> None:
    """Write the encoder of the bundled model as transformers does.

    Args:
        folder: a new folder.
    """
    model = load()
    model.network.encoder.save_pretrained(folder)
    special = {f"{name.lower()}_token": f"[{name}]" for name in ("UNK", "CLS", "SEP", "PAD", "MASK")}
    PreTrainedTokenizerFast(tokenizer_object=model.packer.tokenizer, **special).save_pretrained(folder)


def read(name: str) -> list[Sentence]:
    """Return the sentences of a file that have at most 20 words.

    Args:
        name: name of the file.
    """
    return [sentence for sentence in read_annotated(DATA / name) if len(sentence.words) <= 20]


def main() -> None:
    """Train in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        encoder, bundle = Path(folder, "encoder"), Path(folder, "bundle")
        write_encoder(encoder)
        sentences, test = read("train.jsonl"), read("test.jsonl")[:80]
        result = train(sentences[:150], sentences[150:190], encoder, bundle, SETTINGS, test_sentences=test)
        for name, scores in (("dev", result.dev.micro), ("test", result.test.micro)):
            print(f"{name}: F1 {scores.f1:.1%}, {scores.correct} of {scores.support} entities")
        for entity in load(bundle).tag_text("Colorectal cancer and breast cancer run in some families."):
            print(f"{entity.score:.2f} {entity.label} {entity.text}")


if __name__ == "__main__":
    main()

"""Train and score token classification (transformers), the baseline for span models, on the files of an experiment.

    command = \"\"\"{python} -m benchmarks.peers.token_classification --train {train} --dev {dev} --test {test}
        --output {output} --encoder {encoder} --encoder-layers '{encoder_layers}' --seed {seed} --epochs {epochs}
        --batch-size {batch_size} --learning-rate {learning_rate} --weight-decay {weight_decay}
        --warmup-share {warmup_share} --max-tokens {max_tokens} --device {device}\"\"\"

It uses AutoModelForTokenClassification and Trainer as in their documentation: IOB2 tags on the first subtoken of each
word, with the other subtokens excluded from the loss; AdamW, a linear schedule, and the epoch with the best entity F1
on dev. These are also the choices of `spanmarker train`. In both, a step has `--batch-size` windows.

- A sentence of more than `--max-tokens` tokens is split between words into windows that are tagged separately, never
  truncated; the figures include their number. A word that is too long for a window, or has no tokens, is tagged O and
  counted.
- IOB2 cannot represent nested entities: of overlapping entities, training uses as many as possible; the figures include
  the number of the others.
- The model may predict I-X where no X is open. Such a tag begins an entity, as in conlleval; the figures include the
  number of these repairs.
"""

import argparse
import json
import tempfile
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import torch
from transformers import (
    AutoConfig,
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForTokenClassification,
    Trainer,
    TrainingArguments,
    set_seed,
)

from spanmarker_core.data import Sentence, Span, read_annotated
from spanmarker_core.evaluation.scores.metrics import SpanScorer
from spanmarker_core.evaluation.scores.reach import largest_flat_subset
from spanmarker_core.text.tag_schemes import spans_to_tags, tags_to_spans

_PREDICTED_AT_ONCE = 32
_IGNORED = -100  # label ignored by the loss


@dataclass
class Windows:
    """Sentences as windows of subtokens.

    Attributes:
        features: for each window: input_ids, attention_mask, labels.
        sentence: for each window: index of its sentence.
        words: for each window: (index of the word in its sentence, position of its first subtoken).
        cut: number of sentences with several windows.
        untagged: number of words that are in no window.
        lost: number of entities that IOB2 cannot represent.
    """

    features: list[dict[str, list[int]]] = field(default_factory=list)
    sentence: list[int] = field(default_factory=list)
    words: list[list[tuple[int, int]]] = field(default_factory=list)
    cut: int = 0
    untagged: int = 0
    lost: int = 0


def make_windows(sentences: list[Sentence], tokenizer, max_tokens: int, tags: list[str]) -> Windows:
    """Split sentences into windows; unknown tags become O.

    Args:
        sentences: the annotated sentences.
        tokenizer: the tokenizer of the encoder.
        max_tokens: maximum number of subtokens per window, including special ones.
        tags: the IOB2 tags of the model.
    """
    made = Windows()
    ids = {tag: index for index, tag in enumerate(tags)}
    room = max_tokens - tokenizer.num_special_tokens_to_add()
    for index, sentence in enumerate(sentences):
        flat = largest_flat_subset(set(sentence.entities))
        made.lost += len(set(sentence.entities)) - len(flat)
        gold = spans_to_tags(flat, len(sentence.words), "IOB2")
        pieces: list[list[int]] = [[] for _ in sentence.words]
        encoded = tokenizer(sentence.words, is_split_into_words=True, add_special_tokens=False)
        for token, word in zip(encoded["input_ids"], encoded.word_ids(), strict=True):
            pieces[word].append(token)
        shown = [word for word, tokens in enumerate(pieces) if 0 < len(tokens) <= room]
        made.untagged += len(pieces) - len(shown)
        chunks: list[list[int]] = []
        size = room + 1
        for word in shown:
            size += len(pieces[word])
            if size > room:
                chunks.append([])
                size = len(pieces[word])
            chunks[-1].append(word)
        made.cut += len(chunks) > 1
        for chunk in chunks:
            window = tokenizer([sentence.words[word] for word in chunk], is_split_into_words=True)
            labels, firsts, before = [], [], None
            for place, word in enumerate(window.word_ids()):
                first = word is not None and word != before
                labels.append(ids.get(gold[chunk[word]], 0) if first else _IGNORED)
                if first:
                    firsts.append((chunk[word], place))
                before = word
            made.features.append(
                {"input_ids": window["input_ids"], "attention_mask": window["attention_mask"], "labels": labels}
            )
            made.sentence.append(index)
            made.words.append(firsts)
    return made


def repaired(tags: list[str]) -> tuple[list[Span], int]:
    """Parse IOB2 tags, with repairs; return the spans and the number of repairs.

    A repair treats an I- tag that follows no tag of its label as the beginning of an entity.

    Args:
        tags: the tags of a sentence.

    >>> repaired(["I-LOC", "I-LOC", "I-PER", "O"])
    ([Span(start=0, end=2, label='LOC'), Span(start=2, end=3, label='PER')], 2)
    """
    mended, repairs = [], 0
    for place, tag in enumerate(tags):
        opens = tag.startswith("I-") and (place == 0 or tags[place - 1][2:] != tag[2:])
        repairs += opens
        mended.append(f"B-{tag[2:]}" if opens else tag)
    return tags_to_spans(mended, "IOB2"), repairs


def predict(
    model, windows: Windows, sentences: list[Sentence], collate, tags: list[str]
) -> tuple[list[list[Span]], int]:
    """Return the entities of each sentence, and the number of I- tags that began an entity.

    Args:
        model: the token classifier.
        windows: the windows of the sentences.
        sentences: the sentences.
        collate: data collator for a batch of windows.
        tags: the IOB2 tags of the model.
    """
    found = [["O"] * len(sentence.words) for sentence in sentences]
    order = sorted(range(len(windows.features)), key=lambda index: len(windows.features[index]["input_ids"]))
    model.eval()
    with torch.inference_mode():
        for start in range(0, len(order), _PREDICTED_AT_ONCE):
            members = order[start : start + _PREDICTED_AT_ONCE]
            batch = collate([windows.features[index] for index in members]).to(model.device)
            batch.pop("labels")
            best = model(**batch).logits.argmax(dim=-1).tolist()
            for index, row in zip(members, best, strict=True):
                for word, place in windows.words[index]:
                    found[windows.sentence[index]][word] = tags[row[place]]
    read = [repaired(each) for each in found]
    return [spans for spans, _ in read], sum(repairs for _, repairs in read)


class BestOnDev(Trainer):
    """A Trainer that evaluates entity F1 on dev.

    Args:
        score: returns entity F1 on dev.
        kwargs: passed to Trainer.
    """

    def __init__(self, score, **kwargs) -> None:
        super().__init__(**kwargs)
        self.score = score

    def evaluate(self, *args, **kwargs):
        """Return the metrics of an evaluation on dev.

        Args:
            args: unused.
            kwargs: unused.
        """
        metrics = {"eval_f1": self.score()}
        print(f"epoch {self.state.epoch:.2f}: dev F1 {metrics['eval_f1']:.2%}", flush=True)
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics


def f1(sentences: list[Sentence], predicted: list[list[Span]]) -> float:
    """Return micro F1 over exact spans.

    Args:
        sentences: the annotated sentences.
        predicted: the predicted spans of each sentence.
    """
    scorer = SpanScorer()
    for sentence, spans in zip(sentences, predicted, strict=True):
        scorer.add(sentence.entities, spans)
    return scorer.result().micro.f1


def write(path: Path, sentences: list[Sentence], predicted: list[list[Span]]) -> None:
    """Write predictions in the format of an experiment.

    Args:
        path: path of the file.
        sentences: the sentences.
        predicted: the predicted spans of each sentence.
    """
    with path.open("w", encoding="utf-8") as out:
        for sentence, spans in zip(sentences, predicted, strict=True):
            entities = [{"start": span.start, "end": span.end, "label": span.label} for span in spans]
            ids = {"document_id": sentence.document_id, "sentence_id": sentence.sentence_id}
            out.write(json.dumps({**ids, "entities": entities}, ensure_ascii=False) + "\n")


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("--train", "--dev", "--test", "--output", "--encoder"):
        parser.add_argument(name, type=Path, required=True)
    for name in ("--seed", "--epochs", "--batch-size", "--max-tokens"):
        parser.add_argument(name, type=int, required=True)
    for name in ("--learning-rate", "--weight-decay", "--warmup-share"):
        parser.add_argument(name, type=float, required=True)
    parser.add_argument("--encoder-layers", default="", help="keep the first layers only; all if empty")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()

    train, dev, test = (list(read_annotated(getattr(options, part))) for part in ("train", "dev", "test"))
    labels = sorted({entity.label for sentence in train for entity in sentence.entities})
    tags = ["O", *(f"{prefix}-{label}" for label in labels for prefix in "BI")]
    set_seed(options.seed)
    config = AutoConfig.from_pretrained(options.encoder, num_labels=len(tags))
    if options.encoder_layers:
        config.num_hidden_layers = int(options.encoder_layers)
    tokenizer = AutoTokenizer.from_pretrained(options.encoder)
    model = AutoModelForTokenClassification.from_pretrained(options.encoder, config=config, dtype=torch.float32)
    collate = DataCollatorForTokenClassification(tokenizer)
    windows = {
        part: make_windows(sentences, tokenizer, options.max_tokens, tags)
        for part, sentences in (("train", train), ("dev", dev))
    }

    def score() -> float:
        return f1(dev, predict(model, windows["dev"], dev, collate, tags)[0])

    on_cpu = options.device == "cpu" or (options.device == "auto" and not torch.cuda.is_available())
    with tempfile.TemporaryDirectory() as scratch:
        arguments = TrainingArguments(
            output_dir=scratch,
            learning_rate=options.learning_rate,
            weight_decay=options.weight_decay,
            warmup_steps=options.warmup_share,
            lr_scheduler_type="linear",
            per_device_train_batch_size=options.batch_size,
            num_train_epochs=options.epochs,
            seed=options.seed,
            use_cpu=on_cpu,
            eval_strategy="epoch",
            save_strategy="epoch",
            save_total_limit=1,
            load_best_model_at_end=True,
            metric_for_best_model="f1",
            report_to=[],
            disable_tqdm=True,
            logging_steps=50,
        )
        trainer = BestOnDev(
            score,
            model=model,
            args=arguments,
            train_dataset=windows["train"].features,
            eval_dataset=windows["dev"].features,
            data_collator=collate,
        )
        began, cpu_began = time.monotonic(), time.process_time()
        steps = trainer.train().global_step
        train_seconds, train_cpu = time.monotonic() - began, time.process_time() - cpu_began
    write(options.output / "dev_predictions.jsonl", dev, predict(model, windows["dev"], dev, collate, tags)[0])
    began, cpu_began = time.monotonic(), time.process_time()
    windows["test"] = make_windows(test, tokenizer, options.max_tokens, tags)
    predicted, repairs = predict(model, windows["test"], test, collate, tags)
    seconds, cpu = time.monotonic() - began, time.process_time() - cpu_began
    write(options.output / "predictions.jsonl", test, predicted)
    n_words = sum(len(sentence.words) for sentence in test)
    figures = {
        "steps": steps,
        "train_seconds": train_seconds,
        "train_cpu_seconds": train_cpu,
        "predict_seconds": seconds,
        "words_per_second": n_words / seconds,
        "words_per_cpu_second": n_words / cpu,
        "windows": {part: len(each.features) for part, each in windows.items()},
        "sentences_cut": {part: each.cut for part, each in windows.items()},
        "words_untagged": {part: each.untagged for part, each in windows.items()},
        "train_entities_lost": windows["train"].lost,
        "test_repairs": repairs,
        "versions": {name: version(name) for name in ("torch", "transformers")},
    }
    (options.output / "figures.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Train the `span_marker` library on JSONL data and write its test predictions.

Run by `tests/parity/compare_training.py` inside an environment that holds span_marker 1.8.1
(it needs transformers < 5, so it cannot share ours):

    python train_span_marker.py --encoder DIR --train T --test X --output DIR --seed 1 --sentences 2000
"""

import argparse
import json
import time
from pathlib import Path

import torch
from datasets import Dataset
from span_marker import SpanMarkerModel, Trainer
from transformers import TrainingArguments


def read_jsonl(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def to_iob2(record):
    tags = ["O"] * len(record["tokens"])
    for entity in record["entities"]:
        tags[entity["start"]] = "B-" + entity["label"]
        for word in range(entity["start"] + 1, entity["end"]):
            tags[word] = "I-" + entity["label"]
    return tags


def main():
    parser = argparse.ArgumentParser()
    for name in ("--encoder", "--train", "--test", "--output"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--sentences", type=int, required=True)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--entity-max-length", type=int, default=6)
    arguments = parser.parse_args()

    train = read_jsonl(arguments.train)[: arguments.sentences]
    test = read_jsonl(arguments.test)
    types = sorted({entity["label"] for record in train + test for entity in record["entities"]})
    labels = ["O"] + [prefix + name for name in types for prefix in ("B-", "I-")]
    dataset = Dataset.from_dict(
        {
            "tokens": [record["tokens"] for record in train],
            "ner_tags": [[labels.index(tag) for tag in to_iob2(record)] for record in train],
        }
    )
    torch.manual_seed(arguments.seed)
    model = SpanMarkerModel.from_pretrained(
        str(arguments.encoder),
        labels=labels,
        model_max_length=128,
        marker_max_length=128,
        entity_max_length=arguments.entity_max_length,
    )
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=str(arguments.output / "trainer"),
            seed=arguments.seed,
            learning_rate=arguments.learning_rate,
            per_device_train_batch_size=arguments.batch_size,
            num_train_epochs=arguments.epochs,
            warmup_ratio=0.1,
            weight_decay=0.01,
            save_strategy="no",
            report_to=[],
            logging_steps=25,
        ),
        train_dataset=dataset,
    )
    began = time.monotonic()
    result = trainer.train()
    train_seconds = time.monotonic() - began
    began = time.monotonic()
    predicted = model.predict([record["tokens"] for record in test], batch_size=8)
    test_seconds = time.monotonic() - began
    with open(arguments.output / "predictions.jsonl", "w", encoding="utf-8") as out:
        for record, entities in zip(test, predicted, strict=True):
            rows = [
                {
                    "start": e["word_start_index"],
                    "end": e["word_end_index"],
                    "label": e["label"],
                    "score": e["score"],
                }
                for e in entities
            ]
            out.write(
                json.dumps(
                    {
                        "document_id": record["document_id"],
                        "sentence_id": record["sentence_id"],
                        "entities": rows,
                    }
                )
                + "\n"
            )
    figures = {"steps": result.global_step, "train_seconds": train_seconds, "test_seconds": test_seconds}
    (arguments.output / "figures.json").write_text(json.dumps(figures))


if __name__ == "__main__":
    main()

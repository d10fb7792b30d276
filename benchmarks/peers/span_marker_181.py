"""Train and score span_marker 1.8.1 with its own Trainer on the files of an experiment.

    command = \"\"\"{python} benchmarks/peers/span_marker_181.py --train {train} --dev {dev} --test {test}
        --output {output} --encoder {encoder} --encoder-layers '{encoder_layers}' --seed {seed} --epochs {epochs}
        --batch-size {batch_size} --learning-rate {learning_rate} --weight-decay {weight_decay}
        --warmup-share {warmup_share} --max-tokens {max_tokens} --entity-max-length {entity_max_length}\"\"\"

span_marker requires transformers < 5, so this file restarts itself in another environment: with the interpreter in
SPAN_MARKER_PYTHON, or else in the environment of `tests/parity/span_marker_environment.py`, which is created if
missing.

The settings are those of the experiment. span_marker distributes the spans of a sentence over several samples, so its
batches are enlarged until an epoch has as many steps as with batches of `--batch-size` sentences. It truncates text
beyond `model_max_length`; the figures include the number of these sentences. Its own metric is a script from the hub,
so the best epoch is chosen by F1 over exact spans on dev, as in this library.
"""

import argparse
import json
import math
import os
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def main() -> None:
    """Run from the command line."""
    options = _options()
    if not _has_span_marker():
        _go_on_elsewhere()
    os.environ["HF_HUB_OFFLINE"] = "1"
    train, dev, test = (_read(getattr(options, part)) for part in ("train", "dev", "test"))
    types = sorted({entity["label"] for record in train for entity in record["entities"]})
    labels = ["O", *(f"{prefix}-{label}" for label in types for prefix in "BI")]
    with tempfile.TemporaryDirectory() as scratch:
        model, trainer = _trainer(options, labels, train, dev, Path(scratch))
        began, cpu_began = time.monotonic(), time.process_time()
        steps = trainer.train().global_step
        train_seconds, train_cpu = time.monotonic() - began, time.process_time() - cpu_began
    model.eval()
    _predict(model, dev, options.output / "dev_predictions.jsonl")
    began, cpu_began = time.monotonic(), time.process_time()
    _predict(model, test, options.output / "predictions.jsonl")
    seconds, cpu = time.monotonic() - began, time.process_time() - cpu_began
    n_words = sum(len(record["tokens"]) for record in test)
    figures = {
        "steps": steps,
        "train_seconds": train_seconds,
        "train_cpu_seconds": train_cpu,
        "predict_seconds": seconds,
        "words_per_second": n_words / seconds,
        "words_per_cpu_second": n_words / cpu,
        "entity_max_length": options.entity_max_length,
        "samples_a_step": trainer.args.per_device_train_batch_size,
        "sentences_cut_off": {
            part: _cut_off(model, records) for part, records in (("train", train), ("dev", dev), ("test", test))
        },
        "versions": {name: version(name) for name in ("span_marker", "torch", "transformers")},
    }
    (options.output / "figures.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("--train", "--dev", "--test", "--output", "--encoder"):
        parser.add_argument(name, type=Path, required=True)
    for name in ("--seed", "--epochs", "--batch-size", "--max-tokens", "--entity-max-length"):
        parser.add_argument(name, type=int, required=True)
    for name in ("--learning-rate", "--weight-decay", "--warmup-share"):
        parser.add_argument(name, type=float, required=True)
    parser.add_argument("--encoder-layers", default="", help="keep the first layers only; all if empty")
    return parser.parse_args()


def _has_span_marker() -> bool:
    try:
        return version("span_marker") == "1.8.1"
    except PackageNotFoundError:
        return False


def _go_on_elsewhere() -> None:
    """Run this file again with an interpreter that has span_marker. Does not return."""
    python = os.environ.get("SPAN_MARKER_PYTHON")
    if python is None:
        sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "parity"))
        from span_marker_environment import python_with_span_marker

        python = str(python_with_span_marker())
    if python == sys.executable:
        sys.exit(f"{python} has no span_marker 1.8.1")
    os.environ.pop("PYTHONPATH", None)
    os.execv(python, [python, __file__, *sys.argv[1:]])


def _trainer(options, labels, train, dev, scratch):
    from datasets import Dataset
    from span_marker import SpanMarkerModel, Trainer
    from transformers import TrainingArguments, set_seed

    def dataset(records):
        ids = {tag: index for index, tag in enumerate(labels)}
        tags = [[ids.get(tag, 0) for tag in _iob2(record)] for record in records]
        return Dataset.from_dict({"tokens": [record["tokens"] for record in records], "ner_tags": tags})

    encoder = _cut(options.encoder, options.encoder_layers, scratch / "encoder")
    set_seed(options.seed)
    model = SpanMarkerModel.from_pretrained(
        str(encoder),
        labels=labels,
        model_max_length=options.max_tokens,
        entity_max_length=options.entity_max_length,
    )
    model.generate_model_card = lambda: ""  # called at each save, and it requires the library's own metric
    trained = dataset(train)
    counter = Trainer(model=model, args=TrainingArguments(output_dir=str(scratch / "counter"), report_to=[]))
    n_samples = len(counter.preprocess_dataset(trained, counter.label_normalizer, model.tokenizer))
    samples_a_step = math.ceil(n_samples / math.ceil(len(train) / options.batch_size))
    arguments = TrainingArguments(
        output_dir=str(scratch / "trainer"),
        seed=options.seed,
        learning_rate=options.learning_rate,
        weight_decay=options.weight_decay,
        warmup_ratio=options.warmup_share,
        per_device_train_batch_size=samples_a_step,
        per_device_eval_batch_size=options.batch_size,
        num_train_epochs=options.epochs,
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        load_best_model_at_end=True,
        metric_for_best_model="f1",
        report_to=[],
        disable_tqdm=True,
        logging_steps=50,
    )

    class BestOnDev(Trainer):
        def evaluate(self, *args, **kwargs):
            metrics = {"eval_f1": _f1(dev, self.model.eval().predict([each["tokens"] for each in dev], batch_size=32))}
            print(f"epoch {self.state.epoch:.2f}: dev F1 {metrics['eval_f1']:.2%}", flush=True)
            self.log(metrics)
            self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
            return metrics

    return model, BestOnDev(model=model, args=arguments, train_dataset=trained, eval_dataset=trained)


def _cut(encoder: Path, layers: str, folder: Path) -> Path:
    """Return the folder of the encoder, or of a copy with its first layers only."""
    if not layers:
        return encoder
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    config = AutoConfig.from_pretrained(encoder)
    config.num_hidden_layers = int(layers)
    AutoModel.from_pretrained(encoder, config=config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(encoder).save_pretrained(folder)
    return folder


def _iob2(record) -> list[str]:
    """Return IOB2 tags for as many non-overlapping entities as possible."""
    tags = ["O"] * len(record["tokens"])
    end = 0
    for entity in sorted(record["entities"], key=lambda each: (each["end"], -each["start"], each["label"])):
        if entity["start"] >= end:
            end = entity["end"]
            tags[entity["start"]] = f"B-{entity['label']}"
            tags[entity["start"] + 1 : end] = [f"I-{entity['label']}"] * (end - entity["start"] - 1)
    return tags


def _read(path: Path) -> list[dict]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def _predict(model, records, path: Path) -> None:
    predicted = model.predict([record["tokens"] for record in records], batch_size=32)
    with path.open("w", encoding="utf-8") as out:
        for record, entities in zip(records, predicted, strict=True):
            found = [
                {"start": each["word_start_index"], "end": each["word_end_index"], "label": each["label"]}
                for each in entities
            ]
            ids = {"document_id": record["document_id"], "sentence_id": record["sentence_id"]}
            out.write(json.dumps({**ids, "entities": found}, ensure_ascii=False) + "\n")


def _f1(records, predicted) -> float:
    n_gold = n_found = correct = 0
    for record, entities in zip(records, predicted, strict=True):
        gold = {(each["start"], each["end"], each["label"]) for each in record["entities"]}
        found = {(each["word_start_index"], each["word_end_index"], each["label"]) for each in entities}
        n_gold, n_found, correct = n_gold + len(gold), n_found + len(found), correct + len(gold & found)
    return 2 * correct / (n_gold + n_found) if n_gold + n_found else 0.0


def _cut_off(model, records) -> int:
    """Return the number of sentences that the library truncates."""
    tokenizer = model.tokenizer.tokenizer
    lengths = (len(tokenizer(record["tokens"], is_split_into_words=True)["input_ids"]) for record in records)
    return sum(length > model.config.model_max_length for length in lengths)


if __name__ == "__main__":
    main()

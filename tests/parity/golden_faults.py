"""Where `span_marker` 1.8.1 is wrong: an input, what the library makes of it, what is right.

Runs in the library's own environment. Tests of ours state the difference from these records.
"""

from pathlib import Path
from types import SimpleNamespace

import numpy
import seqeval.metrics
import span_marker.evaluation
from datasets import Dataset
from golden_inputs import LONG_WORDS
from span_marker import SpanMarkerModel, Trainer
from span_marker.label_normalizer import AutoLabelNormalizer
from transformers import EvalPrediction, TrainingArguments


def faults(models: dict[str, SpanMarkerModel]) -> list[dict]:
    """One record a fault: `name`, checkpoint `family`, `input`, what the `library` makes of it, `right`."""
    bert = models["bert"]
    return [
        zero_subtoken_word(bert),
        last_word_without_tokens(bert),
        truncation(bert),
        dropped_gold(bert),
        iob1(bert),
        odd_window(bert),
        one_word_sentences(bert),
        white_space_words(models["roberta"]),
        one_character_three_words(models["xlm-roberta"]),
        not_self_contained(),
    ]


def predict(model: SpanMarkerModel, inputs) -> dict:
    try:
        return {"entities": model.predict(inputs)}
    except Exception as error:
        return {"error": type(error).__name__, "message": str(error)}


def spans_of(model: SpanMarkerModel, words: list[str]) -> list[list[int]]:
    """Candidate spans as in golden.json: word_start, word_end, first token, last token."""
    tokenized = model.tokenizer({"tokens": [words]}, return_num_words=True)
    spans = model.tokenizer.get_all_valid_spans(tokenized["num_words"][0], model.config.entity_max_length)
    tokens = zip(tokenized["start_position_ids"][0], tokenized["end_position_ids"][0], strict=True)
    return [[*span, *token] for span, token in zip(spans, tokens, strict=True)]


def zero_subtoken_word(model: SpanMarkerModel) -> dict:
    words = ["Paris", "\u2063", "Berlin"]
    spans = spans_of(model, words)
    return {
        "name": "zero_subtoken_word",
        "family": "bert",
        "fault": "A word without tokens is given token 0, [CLS]. Spans that start or end at it are scored, "
        "among them one whose last token comes before its first; predict fails when it chooses one.",
        "input": words,
        "library": {
            "spans": spans,
            "backward": [span for span in spans if span[3] < span[2]],
            **predict(model, [words]),
        },
        "right": {"spans": [span for span in spans if 1 not in (span[0], span[1] - 1)]},
    }


def last_word_without_tokens(model: SpanMarkerModel) -> dict:
    words = ["Paris", "Berlin", "\u2063"]
    seen = model.tokenizer({"tokens": [words]}, return_num_words=True)["num_words"][0]
    return {
        "name": "last_word_without_tokens",
        "family": "bert",
        "fault": "Words are counted up to the last one that has tokens.",
        "input": words,
        "library": {"word_count": seen},
        "right": {"word_count": 3},
    }


def truncation(model: SpanMarkerModel) -> dict:
    words = LONG_WORDS[0] * 3
    entities = model.predict([words])[0]
    return {
        "name": "truncation",
        "family": "bert",
        "fault": "What lies beyond model_max_length is dropped, and nothing says so.",
        "input": words,
        "library": {
            "words_seen": model.tokenizer({"tokens": [words]}, return_num_words=True)["num_words"][0],
            "last_word_end": max(entity["word_end_index"] for entity in entities),
        },
        "right": {"words_seen": len(words)},
    }


def dropped_gold(model: SpanMarkerModel) -> dict:
    """Two entities in reach, which the predictor finds, and two that no candidate span stands for."""
    names = "A short name , Anna Lindqvist , and the Royal Orchard Society of Greater Cardiff ."
    sentences = [
        (names.split(" "), [(4, 6), (8, 15)]),
        (LONG_WORDS[0] * 3, [(2, 4), (85, 87)]),
    ]
    ids = {label: index for index, label in model.config.encoder["id2label"].items()}
    rows = {"tokens": [], "ner_tags": []}
    for words, spans in sentences:
        tags = ["O"] * len(words)
        for start, end in spans:
            tags[start:end] = ["B-PER"] + ["I-PER"] * (end - start - 1)
        rows["tokens"].append(words)
        rows["ner_tags"].append([ids[tag] for tag in tags])

    trainer = Trainer(model=model, args=TrainingArguments(output_dir="trainer", use_cpu=True, report_to=[]))
    dataset = trainer.preprocess_dataset(
        Dataset.from_dict(rows), trainer.label_normalizer, model.tokenizer, "evaluation", is_evaluate=True
    )
    width = max(len(span_labels) for span_labels in dataset["labels"])
    gold = numpy.full((len(dataset), width), -100)
    tokens = numpy.zeros((len(dataset), model.tokenizer.model_max_length), dtype=int)
    for row, sample in enumerate(dataset):
        gold[row, : len(sample["labels"])] = sample["labels"]
        tokens[row, : len(sample["input_ids"])] = sample["input_ids"]
    # Sure of every gold label that it is shown.
    logits = 9.0 * numpy.eye(model.config.num_labels)[numpy.maximum(gold, 0)]
    predictions = (logits, None, numpy.array(dataset["num_words"]))
    scores = _with_offline_seqeval(model, EvalPrediction(predictions, gold, tokens))
    return {
        "name": "dropped_gold",
        "family": "bert",
        "fault": "Gold entities longer than entity_max_length, or beyond what was cut off, are dropped "
        "before scoring. A predictor that finds the others has a recall of 1.",
        "input": [
            {
                "tokens": words,
                "entities": [{"start": start, "end": end, "label": "PER"} for start, end in spans],
            }
            for words, spans in sentences
        ],
        "library": {
            "gold": int((gold > 0).sum()),
            "recall": float(scores["overall_recall"]),
            "f1": float(scores["overall_f1"]),
        },
        "right": {"gold": 4, "found": 2, "recall": 0.5, "f1": 2 / 3},
    }


def _with_offline_seqeval(model: SpanMarkerModel, prediction: EvalPrediction) -> dict:
    """The library's own scores; `evaluate.load` alone is replaced: it fetches its script online."""
    predicted, gold = [], []

    def add(prediction: list[str], reference: list[str]) -> None:
        predicted.append(prediction)
        gold.append(reference)

    def compute() -> dict:
        return {
            "overall_recall": seqeval.metrics.recall_score(gold, predicted),
            "overall_f1": seqeval.metrics.f1_score(gold, predicted),
        }

    loaded = span_marker.evaluation.evaluate
    metric = SimpleNamespace(add=add, compute=compute)
    span_marker.evaluation.evaluate = SimpleNamespace(load=lambda _: metric)
    try:
        return span_marker.evaluation.compute_f1_via_seqeval(model.tokenizer, prediction, is_in_train=False)
    finally:
        span_marker.evaluation.evaluate = loaded


def iob1(model: SpanMarkerModel) -> dict:
    tags = ["I-PER", "I-LOC", "O", "I-ORG", "B-ORG"]
    ids = {label: index for index, label in model.config.encoder["id2label"].items()}
    normalizer = AutoLabelNormalizer.from_config(model.config)
    read = [
        {"label": model.config.id2label[label], "start": start, "end": end}
        for label, start, end in normalizer.ner_tags_to_entities([ids[tag] for tag in tags])
    ]
    right = [("PER", 0, 1), ("LOC", 1, 2), ("ORG", 3, 4), ("ORG", 4, 5)]
    return {
        "name": "iob1",
        "family": "bert",
        "fault": "In IOB1 a change of type ends an entity. The library reads on.",
        "input": tags,
        "library": {"entities": read},
        "right": {"entities": [{"label": label, "start": start, "end": end} for label, start, end in right]},
    }


def odd_window(model: SpanMarkerModel) -> dict:
    words = LONG_WORDS[0]
    while len(model.tokenizer({"tokens": [words]})["input_ids"][0]) % 2 == 0:
        words = words[:-1]
    before = model.tokenizer.model_max_length
    model.tokenizer.model_max_length = before - 1
    found = predict(model, [words])
    model.tokenizer.model_max_length = before
    right = predict(model, [words])
    return {
        "name": "odd_window",
        "family": "bert",
        "fault": "With an odd model_max_length, a full sample whose tokens are odd in number has one place "
        "too few: its markers start at the next even place.",
        "input": {"model_max_length": before - 1, "tokens": words},
        "library": found,
        "right": right,  # as with an even limit: the sentence fits in both
    }


def one_word_sentences(model: SpanMarkerModel) -> dict:
    given = ["Lisbon", "Besançon"]
    found = model.predict(given)
    return {
        "name": "one_word_sentences",
        "family": "bert",
        "fault": "Whether strings are sentences or words is guessed from spaces, so two texts of one word "
        "each are read as one sentence of two words.",
        "input": given,
        "library": {"sentences": 1, "entities": found},
        "right": {"sentences": 2},
    }


def _words_of(model: SpanMarkerModel, text: str) -> list[list]:
    tokenized = model.tokenizer({"tokens": [text]}, return_num_words=True, return_batch_encoding=True)
    ranges = [tokenized["batch_encoding"].word_to_chars(0, word) for word in range(tokenized["num_words"][0])]
    return [[start, end, text[start:end]] for start, end in ranges]


def white_space_words(model: SpanMarkerModel) -> dict:
    text = " Anna  Lindqvist   left\tOslo. "
    return {
        "name": "white_space_words",
        "family": "roberta",
        "fault": "Byte-level pre-tokenization makes words of runs of spaces, tabs and line ends, so entities "
        "can start or end at white space, or be empty.",
        "input": text,
        "library": {"words": _words_of(model, text)},
        "right": {"words": [[1, 5, "Anna"], [7, 16, "Lindqvist"], [19, 23, "left"], [24, 28, "Oslo"], [28, 29, "."]]},
    }


def one_character_three_words(model: SpanMarkerModel) -> dict:
    text = "Oslo… Bergen"
    return {
        "name": "one_character_three_words",
        "family": "xlm-roberta",
        "fault": "Words are cut after normalization, where one character can have become three: the ellipsis "
        "is three words at the same place.",
        "input": text,
        "library": {"words": _words_of(model, text)},
        "right": {"words": [[0, 4, "Oslo"], [4, 5, "…"], [6, 12, "Bergen"]]},
    }


def not_self_contained() -> dict:
    """Loading looks for the encoder under the name it was trained from, beside the checkpoint's own files."""
    encoder = Path("tiny-bert")
    hidden = encoder.rename("away")
    try:
        SpanMarkerModel.from_pretrained("golden/bert")
        found = {"error": None}
    except Exception as error:
        found = {"error": type(error).__name__}
    finally:
        hidden.rename(encoder)
    return {
        "name": "not_self_contained",
        "family": "bert",
        "fault": "A saved checkpoint takes the tokenizer and the encoder's configuration from the encoder's "
        "name (encoder._name_or_path), not from its own files, and cannot be loaded without it.",
        "input": "the checkpoint golden/bert, offline, in a folder that holds no tiny-bert",
        "library": found,
        "right": {"error": None},
    }

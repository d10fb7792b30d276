"""Writes the files in this folder. Runs in a checkout of commit 3a44dad, whose code is what makes them old.

    git worktree add /tmp/old-3a44dad 3a44dad
    cd /tmp/old-3a44dad
    PYTHONPATH=$PWD python /path/to/tests/old_data/write.py /path/to/tests/old_data

Everything is made under `/tmp/old-data`, which must not exist, so that the paths that plans, manifests and reports hold
are the same wherever this runs. Random numbers have fixed seeds; what differs between two runs is the times that are
measured, the digests and sizes of files that hold them, and the last digits of floats. `README.md` says what is what.
"""

import json
import platform
import shutil
import sys
from contextlib import chdir
from functools import partial
from pathlib import Path
from unittest import mock

import pipelines.training_job
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from pipelines.annotated_source import PreparedWindows
from spanmarker_core.saving import save_bundle
from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast, TrainerCallback

from pipelines.cli import main
from spanmarker_core import load
from spanmarker_core.card import machine
from spanmarker_core.windows import Context
from tests import tiny

ROOT = Path("/tmp/old-data")
TEXTS = [
    "Barack Obama was in Paris. He flew to New York.",
    "  Müller of Zürich and the London of it.  ",
    "😀 Obama 👩‍👩‍👧 flew to 한글 and שלום.\n\nThe ﬁne York\u2063.",
]
NO_MARKERS: dict[str, object] = {"start_marker_id": None, "end_marker_id": None}
#: Name of a bundle -> family of its encoder, fields of its config, number format of its weights. One of each
#: architecture at least, one of each family, and what else a bundle may hold.
BUNDLES: dict[str, tuple[str, dict[str, object], str]] = {
    "span_marker": ("bert", {"architecture": "span_marker.v1"}, "float32"),
    "span_marker-gate-float16": (
        "bert",
        {
            "architecture": "span_marker.v1",
            "options": {"width_size": 4, "text_features": True},
            "gate": {"trained": "joint", "width": 8, "threshold": 0.3, "curve": []},
            "context": Context("block"),
            "threshold": {"person": 0.4, "location": 0.2},
            "decoder": "nested.v1",
            "pair_layers": 1,
        },
        "float16",
    ),
    "pl_marker": ("roberta", {"architecture": "pl_marker.v1", "options": {"group": 4}}, "float32"),
    "dspert": (
        "bert",
        {"architecture": "dspert.v1", "options": {"lstm": 8, "ffn": 12, "width_size": 4}, **NO_MARKERS},
        "float32",
    ),
    "span_ner": (
        "electra",
        {"architecture": "span_ner.v1", "options": {"width_size": 4}, **NO_MARKERS},
        "float32",
    ),
    "bl_ner": (
        "distilbert",
        {"architecture": "bl_ner.v1", "options": {"width_size": 4, "tags": "crf", "output": "tags"}, **NO_MARKERS},
        "float32",
    ),
    "seq_ner": ("xlm-roberta", {"architecture": "seq_ner.v1", "options": {"tags": "crf"}, **NO_MARKERS}, "float32"),
}

NAMES = {"obama": "person", "barack": "person", "paris": "location", "london": "location", "zürich": "location"}
PATTERNS = ["{} flew to {}", "he was in {} for {}"]
#: Of `spanmarker train`; the run breaks off before this step, of 5 an epoch.
TRAINING = {
    "--architecture": "span_marker",
    "--entity-max-length": 3,
    "--max-tokens": 48,
    "--learning-rate": 0.01,
    "--batch-size": 10,
    "--epochs": 4,
    "--seed": 3,
    "--device": "cpu",
}
BREAKS_OFF = 8


def small_encoder(family: str, vocabulary: int, positions: int = 64, seed: int = 7) -> torch.nn.Module:
    """As `tests.tiny.tiny_encoder`, at half the size."""
    size = {"vocab_size": vocabulary, "max_position_embeddings": positions, "initializer_range": 0.2}
    if family == "distilbert":
        size |= {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24}
    else:
        size |= {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    if family == "electra":
        size |= {"embedding_size": 12}
    if family in ("roberta", "xlm-roberta"):
        size |= {"pad_token_id": 1, "type_vocab_size": 1}
    torch.manual_seed(seed)
    return AutoModel.from_config(AutoConfig.for_model(family, **size)).eval()


def command(*words: object) -> None:
    """Run `spanmarker` in this process; what its reports and cards tell of the machine is left out."""
    line = ["spanmarker", *map(str, words)]
    print("$", *line, flush=True)
    with (
        mock.patch.object(sys, "argv", line),
        mock.patch.object(platform, "platform", return_value="Linux"),
        mock.patch.object(machine, "hardware", return_value="one thread of a CPU"),
    ):
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise


def write_json(path: Path, values: object) -> None:
    path.write_text(json.dumps(values, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def write_lines(path: Path, lines: list[object]) -> None:
    texts = [line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in lines]
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


def bundles() -> None:
    """Write bundles/NAME of random weights, and beside each what it finds in TEXTS."""
    for name, (family, fields, dtype) in BUNDLES.items():
        with mock.patch.object(tiny, "tiny_encoder", small_encoder):
            config, network, tokenizer = tiny.tiny_model(family, **fields)
        folder = ROOT / "bundles" / name
        # States of some encoders differ little: weights that make enough of it to give entities, but not everywhere.
        for scale in (0.5, 1, 2, 4, 8):
            torch.manual_seed(1)
            for parameter, weight in network.named_parameters():
                if parameter in ("classifier.weight", "tags.output.weight"):
                    torch.nn.init.normal_(weight, std=scale)
            save_bundle(folder, config, network, tokenizer, card="# Tiny\n", dtype=dtype)
            if sum(map(len, load(folder).tag_text(TEXTS))) >= 3:
                break
            shutil.rmtree(folder)
        record_entities(name)


def record_entities(name: str) -> None:
    found = load(ROOT / "bundles" / name).tag_text(TEXTS)
    print(name, [len(entities) for entities in found])
    fields = ("label", "score", "sentence", "word_start", "word_end", "char_start", "char_end", "text")
    values = [
        {"text": text, "entities": [{field: getattr(entity, field) for field in fields} for entity in entities]}
        for text, entities in zip(TEXTS, found, strict=True)
    ]
    write_json(ROOT / "bundles" / f"{name}.json", values)


def annotated_sentences() -> list[dict[str, object]]:
    """Sentences in which the name says the label."""
    made: list[dict[str, object]] = []
    for first in NAMES:
        for second in NAMES:
            for number, pattern in enumerate(PATTERNS):
                words = pattern.format(first, second).split()
                entities = [
                    {"start": i, "end": i + 1, "label": NAMES[word]} for i, word in enumerate(words) if word in NAMES
                ]
                made.append(
                    {
                        "document_id": f"{first}-{second}",
                        "sentence_id": number,
                        "tokens": words,
                        "entities": entities,
                    }
                )
    return made


class Watch(TrainerCallback):
    """Keeps the loss of each step, and ends the run before a step, as Ctrl-C does."""

    def __init__(self, stop: int | None = None) -> None:
        self.stop, self.losses = stop, []

    def on_step_begin(self, args: object, state: object, control: object, **kwargs: object) -> None:
        if state.global_step == self.stop:
            raise KeyboardInterrupt

    def on_step_end(self, args: object, state: object, control: object, **kwargs: object) -> None:
        control.should_log = True

    def on_log(self, args: object, state: object, control: object, logs: dict[str, float], **kwargs: object) -> None:
        if "loss" in logs:
            self.losses.append(logs["loss"])


def train(*words: object, stop: int | None = None) -> list[float]:
    """Run `spanmarker train` and return the loss of each step; with `stop` it breaks off before that step."""
    watch = Watch(stop)
    watched = partial(pipelines.training_job.train, callbacks=[watch])
    with mock.patch.object(pipelines.training_job, "train", watched):
        try:
            command("train", *words)
            broke_off = False
        except (KeyboardInterrupt, SystemExit):
            broke_off = True
    assert broke_off == (stop is not None)
    return watch.losses


def training() -> None:
    """Write an encoder, annotated data, a run that breaks off, and the bundle that it goes on to."""
    tokenizer = tiny.tiny_tokenizer("bert")
    names = {"unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]"}
    small_encoder("bert", tokenizer.get_vocab_size()).save_pretrained(ROOT / "encoder")
    saved = PreTrainedTokenizerFast(tokenizer_object=tokenizer, mask_token="[MASK]", **names)
    saved.save_pretrained(ROOT / "encoder")
    sentences = annotated_sentences()
    write_lines(ROOT / "train.jsonl", sentences)
    write_lines(ROOT / "dev.jsonl", sentences[:20])
    options = [word for pair in TRAINING.items() for word in pair]
    paths = ["--train", "train.jsonl", "--dev", "dev.jsonl", "--encoder", "encoder", "--output", "bundles/trained"]
    train(*paths, "--gate", *options, stop=BREAKS_OFF)
    shutil.copytree(ROOT / "bundles" / "trained.training", ROOT / "checkpoint")
    (ROOT / "checkpoint" / "lock").unlink()
    for pickled in (ROOT / "checkpoint").glob("checkpoint-*/training_args.bin"):
        pickled.unlink()  # Going on doesn't read it.
    losses = train(*paths, "--gate", *options)
    write_json(ROOT / "checkpoint.json", {"losses": losses})
    record_entities("trained")


def annotated() -> None:
    """Write windows of annotated documents and of annotated sentences, and what training reads of them."""
    documents = []
    for number, text in enumerate(TEXTS):
        entities = [
            {"start": start, "end": start + len(word), "label": NAMES[word.lower()]}
            for word in ("Barack", "Obama", "Paris", "Zürich", "London")
            if (start := text.find(word)) >= 0
        ]
        documents.append({"id": f"text-{number}", "text": text, "entities": entities})
    documents[0]["entities"].append({"start": 1, "end": 4, "label": "person"})  # within a word
    write_lines(ROOT / "corpus" / "documents.jsonl", documents)
    limits = ["--entity-max-length", 3, "--max-tokens", 48, "--context", "document", "--max-prev-context", 1]
    inputs = ["--input", "corpus/documents.jsonl", "--input", "dev.jsonl"]
    command("prepare", "--annotated", *inputs, "--encoder", "encoder", "--output", "annotated", *limits, "--threads", 1)
    windows = PreparedWindows("annotated", max_misaligned=1)
    pools = []
    for pool in range(len(windows.pool_offsets) - 1):
        seen, gold = windows.read(pool)
        pools.append({**arrays(seen), **{f"gold_{name}": values for name, values in arrays(gold).items()}})
    write_json(ROOT / "annotated.json", {"labels": windows.labels, "digest": windows.digest, "pools": pools})


def arrays(values: object) -> dict[str, list[object]]:
    names = values._fields if hasattr(values, "_fields") else values.__dataclass_fields__
    return {name: getattr(values, name).tolist() for name in names}


def corpus() -> None:
    """Write documents of each format, and records that none can be read from."""
    records = [{"id": f"line-{number}", "text": text} for number, text in enumerate([*TEXTS, ""])]
    write_lines(
        ROOT / "corpus" / "lines.jsonl", [*records, {"id": "none", "text": None}, "{", {"id": 7, "text": "Paris"}]
    )
    rows = pa.table({"id": ["row-0", "row-1"], "text": ["He flew to Paris.", "Obama was in London and Zürich."]})
    pq.write_table(rows, ROOT / "corpus" / "rows.parquet")
    (ROOT / "corpus" / "damaged.parquet").write_bytes(b"PAR1 and then nothing")
    (ROOT / "corpus" / "texts").mkdir()
    for number, text in enumerate(TEXTS[:2]):
        (ROOT / "corpus" / "texts" / f"{number}.txt").write_text(text, encoding="utf-8")


def tagged() -> None:
    """Write rows; a part of the manifest is in its table, as where there are many shards."""
    job = ["--model", "bundles/trained", "--threshold", 0.3, "--threads", 1]
    files = ["corpus/lines.jsonl", "corpus/rows.parquet", "corpus/damaged.parquet", "corpus/texts/*.txt"]
    inputs = [word for file in files for word in ("--input", file)]
    with mock.patch("pipelines.manifest.FOLD_AT", 0):
        command("tag", *inputs[:4], "--output", "tagged", *job)
    command("tag", *inputs, "--output", "tagged", *job)
    assert (ROOT / "tagged" / "manifest" / "entries.parquet").exists()
    command("prepare", *inputs, "--model", "bundles/trained", "--output", "prepared", "--threads", 1)
    command("tag", "--samples", "prepared", "--output", "tagged-samples", *job)
    for table in ("annotations", "documents", "rejects"):
        assert rows("tagged", table) == rows("tagged-samples", table), table


def rows(output: str, table: str) -> list[dict[str, object]]:
    found = [pq.read_table(path).to_pylist() for path in sorted((ROOT / output / table).glob("*.parquet"))]
    return sorted((row for part in found for row in part), key=repr)


def evaluation() -> None:
    """Write the report of a model."""
    data = ["--data", "dev.jsonl", "--train", "train.jsonl"]
    command("evaluate", "--model", "bundles/trained", *data, "--report", "evaluation")


if __name__ == "__main__":
    torch.set_num_threads(1)
    ROOT.mkdir()
    (ROOT / "corpus").mkdir()
    with chdir(ROOT):
        for part in (bundles, training, annotated, corpus, tagged, evaluation):
            part()
    shutil.rmtree(ROOT / "tagged-samples")
    shutil.copytree(ROOT, sys.argv[1], dirs_exist_ok=True)

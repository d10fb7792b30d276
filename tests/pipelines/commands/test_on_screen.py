"""Long commands in a terminal of 100 columns, with real models: what is on the screen, and how often it changes."""

import json
import os
import re
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from spanmarker_core.default_model import bundled_model_path
from tests.support.jobs import write_jsonl
from tests.support.processes import ROOT, environment
from tests.support.terminal import Terminal
from tests.support.training import write_encoder

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

DATA = ROOT / "infra" / "bench" / "data"
SIZE = 100, 30


def patience() -> float:
    """Seconds without news that are too many: five, or more where others use the machine."""
    return 5 * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def corpus(path: Path, copies: int) -> Path:
    """Write paragraphs of speeches, and a record without a text."""
    texts = [json.loads(line)["text"] for line in (DATA / "speeches" / "documents.jsonl").read_text().splitlines()]
    paragraphs = [part for text in texts * copies for part in text.split("\n") if part.strip()]
    records = [{"id": f"p{number}", "text": part} for number, part in enumerate(paragraphs)]
    return write_jsonl(path, [{"id": "null", "text": None}, *records])


def lines_of(path: Path, source: Path, count: int) -> Path:
    """Write the first lines of a file."""
    path.write_text("".join(source.read_text().splitlines(keepends=True)[:count]))
    return path


def finished(terminal: Terminal) -> str:
    """Wait for a command that succeeds and was never silent; return what it wrote."""
    assert terminal.end(800) == 0, terminal.text[-2000:]
    assert terminal.longest_silence < patience()
    shown = [line for line in re.split(r"[\r\n]", terminal.text) if "elapsed" in line or "words/s" in line]
    assert max(map(len, shown)) <= SIZE[0]
    return terminal.text


def test_tag_shows_a_bar_that_never_stands_still(tmp_path):
    terminal = Terminal(
        *("tag", "--input", corpus(tmp_path / "in.jsonl", 3), "--output", tmp_path / "out"),
        *("--max-shard-bytes", 40_000),
        size=SIZE,
    )
    text = finished(terminal)
    assert re.search(r"tagging [━╸╺ ]+\d+ %  \d+:\d\d elapsed, about \d+:\d\d left", text)
    assert re.search(r"of 3 shards, \d+ documents, \d+ entities, 1 rejected, [\d,]+ words/s", text)
    # Batches of the model count, not only finished documents.
    entities = [int(count) for count in re.findall(r"0 of 3 shards, 0 documents, (\d+) entit", text)]
    assert len(set(entities)) > 2
    assert terminal.when("about .* left") - terminal.when(r"[1-9]\d* words/s") < 2 * patience()
    assert "Most frequent labels: " in text
    assert "Next:" in text


def test_evaluate_shows_a_bar_that_never_stands_still(tmp_path):
    data = lines_of(tmp_path / "data.jsonl", ROOT / "infra" / "models" / "bundled" / "data" / "dev.jsonl", 400)
    terminal = Terminal("evaluate", "--model", bundled_model_path(), "--data", data, size=SIZE)
    text = finished(terminal)
    assert re.search(r"scoring [━╸╺ ]+\d+ %  \d+:\d\d elapsed, about \d+:\d\d left", text)
    assert re.search(r"[\d,]+ of [\d,]+ words", text)


def test_train_shows_steps_losses_and_what_it_scores(tmp_path):
    train = dev = lines_of(tmp_path / "data.jsonl", DATA / "wnut17" / "train.jsonl", 300)
    terminal = Terminal(
        *("train", "--train", train, "--dev", dev, "--test", dev, "--encoder", write_encoder(tmp_path / "encoder")),
        *("--output", tmp_path / "model", "--epochs", 2, "--max-tokens", 64, "--batch-size", 8, "--device", "cpu"),
        size=SIZE,
    )
    text = finished(terminal)
    assert re.search(r"training [━╸╺ ]+\d+ %  \d+:\d\d elapsed, about \d+:\d\d left", text)
    assert re.search(r"\d+ of [\d,]+ steps, epoch [12] of 2, loss \d\.\d+, [\d,]+ words/s", text)
    assert terminal.when("training [━╸╺]") < terminal.when("scoring dev") < terminal.when("scoring test")


def test_a_pipe_gets_a_line_now_and_then(tmp_path):
    code = "from pipelines.runs import progress; progress.LINE_SECONDS = 2.0\nfrom pipelines.cli import main; main()"
    words = ["tag", "--input", corpus(tmp_path / "in.jsonl", 1), "--output", tmp_path / "out"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(PYTHONUNBUFFERED="1"),
    )
    assert process.stdout is not None
    lines = [(time.monotonic(), line) for line in process.stdout]
    assert process.wait() == 0
    assert "\x1b" not in "".join(line for _, line in lines)
    moments = [moment for moment, line in lines if " elapsed" in line]
    assert len(moments) > 2
    assert min(after - before for before, after in pairwise(moments)) > 1.5
    assert max(after - before for before, after in pairwise(moments)) < 2 + patience()
    assert any(re.match(r"tagging: \d+ %, \d+:\d\d elapsed, ", line) for _, line in lines)

"""Runs of two processes, started as a user starts them, on the CPU with gloo."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from spanmarker_core import load
from spanmarker_core.evaluation.evaluate import evaluate
from tests.support.training import calm, sentences

pytestmark = pytest.mark.slow

BIN = Path(sys.executable).parent
TORCHRUN = [str(BIN / "torchrun"), "--standalone", "--nproc-per-node", "2"]
#: Its name for one process a device; there is another way for CPUs, which takes MPI.
ACCELERATE = [str(BIN / "accelerate"), "launch", "--multi_gpu", "--num_processes", "2", "--main_process_port"]
#: Options of DSpERT without dropout of its own.
CALM_HEAD = {"lstm": 16, "lstm_dropout": 0, "ffn_dropout": 0}
#: Options of the run of one process, and of that of two, which has as many parts where there is dropout.
FORMS = {
    "plain": ({}, {}),
    "gated": ({"gate": True, "gate_share": 0.3}, {}),
    "parts": ({"accumulation": 6}, {"accumulation": 3}),
    "tokens": ({"batch_tokens": 90, "accumulation": 2}, {"accumulation": 1}),
    "small": ({"batch_size": 3, "accumulation": 8}, {"accumulation": 4}),
    "tags": ({"architecture": "seq_ner.v1", "options": {"tags": "crf"}}, {}),
    "bundled": ({"architecture": "bl_ner.v1", "negatives": 3}, {}),
    "deep": ({"architecture": "dspert.v1", "options": CALM_HEAD, "boundary_smoothing": 0.1}, {}),
}
DROPOUT = ("parts", "tokens", "small")


def run(command, *arguments):
    process = subprocess.Popen(
        [*command, *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=240)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return process.returncode, said


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def jobs(folder, name, encoder, without_dropout):
    made = []
    for form, (one, two) in FORMS.items():
        step = {} if "batch_tokens" in one else {"batch_size": 10}
        settings = {**step, "epochs": 1, "learning_rate": 1e-3, **one, **(two if name == "two" else {})}
        made.append(
            {
                "encoder": str(encoder if form in DROPOUT else without_dropout),
                "output": str(folder / name / form),
                "log": str(folder / name / f"{form}.jsonl"),
                "settings": settings,
            }
        )
    (folder / name).mkdir()
    return json.dumps(made)


def test_two_processes_have_the_losses_and_the_weights_of_one(encoder, tmp_path):
    without_dropout = calm(encoder, tmp_path / "calm")
    module = ("-m", "tests.spanmarker_core.training.training_worker")
    for name, command in (("one", [sys.executable]), ("two", TORCHRUN)):
        code, said = run(command, *module, jobs(tmp_path, name, encoder, without_dropout))
        assert code == 0, said
        # The first process speaks for both.
        assert said.count("dev F1") == len(FORMS)
        assert "Warning" not in said
    for form in FORMS:
        one, two = (
            [json.loads(line) for line in (tmp_path / name / f"{form}.jsonl").read_text().splitlines()]
            for name in ("one", "two")
        )
        assert [row["step"] for row in two] == [row["step"] for row in one]
        losses = [row["loss"] for row in one]
        assert len(set(losses)) == len(losses) >= 4
        assert [row["loss"] for row in two] == pytest.approx(losses, rel=1e-4)
        weights, others = (load_file(tmp_path / name / form / "model.safetensors") for name in ("one", "two"))
        for weight, value in weights.items():
            # AdamW divides by the gradients' size, so that the last digits of small ones count. Those of the keys'
            # biases, to which softmax is blind, are nothing but last digits.
            if not weight.endswith("key.bias"):
                torch.testing.assert_close(others[weight], value, rtol=0, atol=2e-4, msg=f"{form}, {weight}")


def test_the_command_runs_under_a_launcher(encoder, tmp_path):
    data = sentences()
    rows = [
        {
            "document_id": sentence.document_id,
            "sentence_id": sentence.sentence_id,
            "tokens": sentence.words,
            "entities": [{"start": e.start, "end": e.end, "label": e.label} for e in sentence.entities],
        }
        for sentence in data
    ]
    for name, part in (("train", rows), ("dev", rows[:20])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    options = {
        "train": tmp_path / "train.jsonl",
        "dev": tmp_path / "dev.jsonl",
        "encoder": encoder,
        "output": tmp_path / "bundle",
        "batch-size": 4,
        "epochs": 8,
        "learning-rate": 5e-3,
        "entity-max-length": 3,
        "max-tokens": 48,
        "device": "cpu",
    }
    arguments = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
    code, said = run([*ACCELERATE, free_port()], "-m", "pipelines.cli", "train", *arguments)
    assert code == 0, said
    told = [line for line in said.splitlines() if "dev F1" in line]
    assert len(told) == 9
    model = load(tmp_path / "bundle")
    f1 = evaluate(model, data[:20]).micro.f1
    assert f"dev F1 {f1:.1%} after 104 steps" in " ".join(said.split())
    assert f1 > 0.5
    assert not (tmp_path / "bundle.training").exists()


def test_what_is_not_finite_in_one_process_stops_both(encoder, tmp_path):
    job = {
        "encoder": str(encoder),
        "output": str(tmp_path / "b"),
        "log": str(tmp_path / "log"),
        "settings": {"batch_size": 4, "epochs": 1},
        "poison": 1,
    }
    code, said = run(TORCHRUN, "-m", "tests.spanmarker_core.training.training_worker", json.dumps([job]))
    assert code == 0, said
    errors = {line.split(": ")[0]: line for line in said.splitlines() if line.startswith("process ")}
    assert sorted(errors) == ["process 0", "process 1"]
    (error,) = {line.partition(": ")[2] for line in errors.values()}
    code, values = json.loads(error)
    assert (code, values["step"]) == ("training.not_finite", 4)
    windows = values["windows"].split("; ")
    assert len(windows) == 2, "the half of the step's four sentences that the poisoned process had"

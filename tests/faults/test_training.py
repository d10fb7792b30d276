"""Trainings that are killed, by SIGKILL and at any moment, and started again by the same command."""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.spanmarker_core.training.test_distributed import TORCHRUN

pytestmark = pytest.mark.faults


def start(command, job):
    arguments = [*command, "-m", "tests.spanmarker_core.training.training_worker", json.dumps([job])]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, text=True)


def steps_of(log):
    return len(log.read_text().splitlines()) if log.exists() else 0


def kill(process, log, lines):
    """Kill a run and all its processes at some moment after it has made so many steps more."""
    begun = steps_of(log)
    while steps_of(log) < begun + lines:
        assert process.poll() is None, "the run came to its end before it was killed"
        time.sleep(0.002)
    everyone = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for each in everyone:
        each.kill()
    psutil.wait_procs(everyone)
    process.communicate()


@pytest.mark.parametrize(
    ("command", "kills"), [([sys.executable], 2), (TORCHRUN, 1)], ids=["one process", "two processes"]
)
def test_a_killed_run_goes_on_to_the_weights_of_one_that_was_not(command, kills, encoder, tmp_path):
    settings = {"batch_size": 4, "epochs": 2, "learning_rate": 3e-3, "save_steps": 3, "gate": True}
    weights = []
    moments = random.Random(len(command))
    for name, times in (("whole", 0), ("killed", kills)):
        job = {
            "encoder": str(encoder),
            "output": str(tmp_path / name),
            "log": str(tmp_path / f"{name}.jsonl"),
            "settings": settings,
            "seconds": 0.05 if times else 0,
        }
        log = Path(job["log"])
        for _ in range(times):
            kill(start(command, job), log, moments.choice([4, 5, 7]))
            assert not (tmp_path / name).exists()
        said, _ = start(command, job).communicate(timeout=200)
        assert ("Resuming from" in said) == (times > 0)
        weights.append((tmp_path / name / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]
    whole, killed = (
        [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]
        for name in ("whole", "killed")
    )
    # What was done after a checkpoint comes again, as it was, and no more than that.
    assert sorted({(row["step"], row["loss"]) for row in killed}) == [(row["step"], row["loss"]) for row in whole]
    assert len(whole) < len(killed) <= len(whole) + kills * 4


def test_a_run_whose_launcher_was_killed_keeps_others_from_its_folder(encoder, tmp_path):
    """The processes that torchrun has started outlive it."""
    settings = {"batch_size": 4, "epochs": 2, "save_steps": 1}
    job = {"encoder": str(encoder), "output": str(tmp_path / "b"), "log": str(tmp_path / "log"), "settings": settings}
    log = tmp_path / "log"
    first = start(TORCHRUN, {**job, "hold": 2})  # by then the checkpoint of step 1 is there
    while steps_of(log) < 2:
        assert first.poll() is None, "the run came to its end before it was killed"
        time.sleep(0.05)
    workers = psutil.Process(first.pid).children(recursive=True)
    first.kill()
    try:
        said, _ = start([sys.executable], job).communicate(timeout=200)
        assert "training.in_use" in said
        assert steps_of(log) == 2
    finally:
        for each in workers:
            each.kill()
        psutil.wait_procs(workers)
        first.communicate()
    said, _ = start([sys.executable], job).communicate(timeout=200)
    assert "Resuming from" in said
    assert (tmp_path / "b" / "model.safetensors").exists()

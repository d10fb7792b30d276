"""kill -9 at random moments. The next run of the same command ends with the rows of one clean run."""

import random
import signal
import subprocess
import sys
import time
from contextlib import suppress

import psutil
import pytest

from tests.support.jobs import all_rows, documents, write_jsonl, write_parquet

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1800)]
KILLS = 14


def start(corpus, out, bundle):
    command = [sys.executable, "-m", "pipelines.cli", "tag", "--input", f"{corpus}/*", "--output", str(out)]
    command += ["--model", str(bundle), "--max-shard-bytes", "900", "--workers", "2", "--threads", "1"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(process):
    text = process.communicate(timeout=600)[0]
    assert process.returncode == 0, text
    return text


def workers_of(process):
    """The processes that write: the children of the job but for multiprocessing's own helper."""
    found = []
    for child in psutil.Process(process.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it ended meanwhile, or has ended and waits for its parent to see
            if "spawn_main" in " ".join(child.cmdline()):
                found.append(child)
    return found


def assert_every_entry_has_its_files(out):
    for entry in (out / "manifest").glob("*.json"):
        for table in ("annotations", "documents", "rejects"):
            assert (out / table / f"{entry.stem}.parquet").exists()


def test_kills_lose_nothing_and_double_nothing(tmp_path, tiny_bundle):
    corpus, out, clean = tmp_path / "in", tmp_path / "out", tmp_path / "clean"
    write_jsonl(corpus / "a.jsonl", [*documents(300, "a"), {"id": "n", "text": None}, b"{"])
    write_parquet(corpus / "b.parquet", documents(200, "b"), row_group_size=30)
    finish(start(corpus, clean, tiny_bundle))
    expected = all_rows(clean)
    assert len(expected["documents"]) == 502

    moments = random.Random(20)
    killed_jobs = killed_workers = finished = 0
    while killed_jobs + killed_workers < KILLS:
        job = start(corpus, out, tiny_bundle)
        if moments.random() < 0.8:  # else: while it plans, or loads the model
            job.stdout.readline()
        time.sleep(moments.uniform(0, 2))
        if job.poll() is not None:  # It was quicker: begin again from nothing but half of its shards.
            finished += 1
            for entry in sorted((out / "manifest").glob("*.json"))[::2]:
                entry.unlink()
            continue
        workers = workers_of(job)
        if workers and moments.random() < 0.5:
            killed_workers += 1
            moments.choice(workers).send_signal(signal.SIGKILL)
            time.sleep(moments.uniform(0, 4))
        if job.poll() is None:
            workers = workers_of(job)
            killed_jobs += 1
            job.kill()
            _, alive = psutil.wait_procs(workers, timeout=20)
            assert not alive, "workers outlive their parent"
        job.communicate()
        assert_every_entry_has_its_files(out)
    assert min(killed_jobs, killed_workers) >= 3

    finish(start(corpus, out, tiny_bundle))
    assert all_rows(out) == expected
    assert not list(out.rglob("*.scratch"))
    assert "Nothing to do" in finish(start(corpus, out, tiny_bundle))


def test_interrupt_ends_cleanly_and_the_next_run_goes_on(tmp_path, tiny_bundle):
    corpus, out = tmp_path / "in", tmp_path / "out"
    write_jsonl(corpus / "a.jsonl", documents(400))
    job = start(corpus, out, tiny_bundle)
    job.stdout.readline()
    workers = workers_of(job)
    job.send_signal(signal.SIGINT)
    text = job.communicate(timeout=60)[0]
    assert job.returncode == 130
    assert "Traceback" not in text
    assert not psutil.wait_procs(workers, timeout=20)[1]
    finish(start(corpus, out, tiny_bundle))
    assert len(all_rows(out)["documents"]) == 400

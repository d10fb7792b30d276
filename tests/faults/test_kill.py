"""kill -9 at random moments. The next run of the same command ends with the rows of one clean run."""

import itertools
import random
import signal
import time
from contextlib import suppress

import psutil
import pytest

from pipelines.output.layout import SAMPLE_TABLES
from tests.support.jobs import prepare, slow_documents, write_jsonl, write_parquet
from tests.support.processes import assert_all_end, children, finish, shards_done, start, wait_for_shards
from tests.support.rows import prepared

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1800)]
VICTIMS = ("job that starts", "worker", "job")


def start_job(corpus, out, bundle):
    """Prepare, since engines know nothing of models, and a worker that loads one takes ten times as long to start."""
    words = ["prepare", "--input", f"{corpus}/*", "--output", out, "--model", bundle, "--max-shard-bytes", 900]
    return start(*words, "--workers", 2, killers=True)


def workers_of(job):
    """The processes that write: the children of the job but for multiprocessing's own helper."""
    return children(job.pid, "spawn_main")


def test_kills_lose_nothing_and_double_nothing(tmp_path, tiny_bundle, request):
    """Twice each victim, or as often as --fault-rounds says."""
    corpus, out, clean = tmp_path / "in", tmp_path / "out", tmp_path / "clean"
    write_jsonl(corpus / "a.jsonl", [*slow_documents(150, "a"), {"id": "n", "text": None}, b"{"])
    write_parquet(corpus / "b.parquet", slow_documents(100, "b"), row_group_size=5)
    prepare([f"{corpus}/*"], clean, tiny_bundle, max_shard_bytes=900)
    expected = prepared(clean)
    assert len(expected["inputs"]) == 252

    moments = random.Random(request.config.getoption("--fault-seed"))
    victims = itertools.islice(itertools.cycle(VICTIMS), request.config.getoption("--fault-rounds") or 6)
    for victim in victims:
        if shards_done(out) > 25:  # of fifty: begin again from half of them
            for entry in sorted((out / "manifest").glob("*.json"))[::2]:
                entry.unlink()
        job, before = start_job(corpus, out, tiny_bundle), shards_done(out)
        if victim == "job that starts":  # plans, or starts its workers
            time.sleep(moments.uniform(0, 1))
        else:
            wait_for_shards(out, before + moments.randint(1, 4), job)
        workers = workers_of(job)
        if victim == "worker":
            with suppress(psutil.NoSuchProcess):
                moments.choice(workers).kill()
            wait_for_shards(out, before + 7, job)
            workers = workers_of(job)
        assert job.poll() is None
        job.kill()
        assert_all_end(workers)  # Workers don't outlive their parent.
        job.communicate()
        for entry, table in itertools.product((out / "manifest").glob("*.json"), SAMPLE_TABLES):
            assert (out / table.name / f"{entry.stem}.arrow").exists()

    finish(start_job(corpus, out, tiny_bundle))
    assert prepared(out) == expected
    assert not list(out.rglob("*.scratch"))
    assert "Nothing to do" in prepare([f"{corpus}/*"], out, tiny_bundle, max_shard_bytes=900)


def test_interrupt_ends_cleanly_and_the_next_run_goes_on(tmp_path, tiny_bundle):
    corpus, out = tmp_path / "in", tmp_path / "out"
    write_jsonl(corpus / "a.jsonl", slow_documents(200))
    job = start_job(corpus, out, tiny_bundle)
    wait_for_shards(out, 1, job)
    workers = workers_of(job)
    assert len(workers) == 2
    job.send_signal(signal.SIGINT)
    finish(job, code=130)
    assert_all_end(workers)
    done = shards_done(out)
    assert f"{done} done before" in prepare([f"{corpus}/*"], out, tiny_bundle, max_shard_bytes=900)
    assert len(prepared(out)["inputs"]) == 200

"""The lock of an output in a store, with real processes and a real store."""

import os
import signal
import subprocess
import sys
import time

import pytest

from pipelines.errors import PipelineError
from pipelines.storage import lock, sole_writer, use_options
from tests.services.servers.seaweed import READER

pytestmark = pytest.mark.timeout(300)


class Contender:
    def __init__(self, url, renew=1.0, stale=60.0, machine="elsewhere"):
        command = [sys.executable, "-m", "tests.services.servers.lock_process", url, str(renew), str(stale), machine]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.answer() == "ready"

    def ask(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def answer(self):
        return self.process.stdout.readline().strip()

    def end(self):
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGCONT)
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def contenders():
    started = []

    def start(*args, **options):
        started.append(Contender(*args, **options))
        return started[-1]

    yield start
    for one in started:
        one.end()


def test_of_eight_processes_one_wins_each_round(s3, contenders):
    """Round after round, since the winner of one is gone for the next."""
    for round_ in range(2):
        all_ = [contenders(s3) for _ in range(8)]
        for one in all_:
            one.ask()
        answers = [one.answer() for one in all_]
        assert answers.count("held") == 1, answers
        assert sum(answer.startswith("output.busy") for answer in answers) == 7, answers
        winner = all_[answers.index("held")]
        assert any(f"process {winner.process.pid} on" in answer for answer in answers)
        winner.process.stdin.close()
        assert winner.answer() == "released"
        assert lock_names(s3) == [f".lock-{round_ + 1:08}"]
        for one in all_:
            one.end()


def lock_names(url):
    import fsspec

    fs, path = fsspec.core.url_to_fs(url)
    return sorted(name.rpartition("/")[2] for name in fs.ls(path, detail=False, refresh=True))


def test_a_killed_holder_is_succeeded_when_its_lease_is_stale(s3, contenders, monkeypatch):
    holder = contenders(s3)
    holder.ask()
    assert holder.answer() == "held"
    holder.process.kill()
    holder.process.wait()
    with pytest.raises(PipelineError, match=r"output.busy.*contender"):
        sole_writer(s3).__enter__()
    monkeypatch.setattr(lock, "STALE", 4.0)
    start = time.monotonic()
    while True:
        try:
            with sole_writer(s3) as lease:
                lease.check()
                break
        except PipelineError:
            assert time.monotonic() < start + 20
            time.sleep(0.5)


def test_a_holder_killed_on_this_machine_is_succeeded_at_once(s3, contenders):
    holder = contenders(s3, machine="")
    holder.ask()
    assert holder.answer() == "held"
    with pytest.raises(PipelineError, match=r"output.busy"):
        sole_writer(s3).__enter__()
    holder.process.kill()
    holder.process.wait()
    with sole_writer(s3) as lease:
        lease.check()


def test_a_stopped_holder_wakes_up_to_a_lost_lease(s3, contenders):
    sleeper = contenders(s3, renew=0.5, stale=3.0)
    sleeper.ask()
    assert sleeper.answer() == "held"
    time.sleep(5)  # Longer than a lease that is not renewed.
    second = contenders(s3, renew=0.5, stale=3.0)
    second.ask()
    assert second.answer().startswith("output.busy")
    os.kill(sleeper.process.pid, signal.SIGSTOP)
    time.sleep(5)
    third = contenders(s3, renew=0.5, stale=3.0)
    third.ask()
    assert third.answer() == "held"
    os.kill(sleeper.process.pid, signal.SIGCONT)
    time.sleep(1.5)  # Its renewal has had its chance to do harm.
    sleeper.ask()
    answer = sleeper.answer()
    assert answer.startswith("output.lock_lost"), answer
    assert f"process {third.process.pid} on" in answer
    third.ask()
    assert third.answer() == "held"
    third.process.stdin.close()
    assert third.answer() == "released"


def test_credentials_that_may_not_write_are_a_coded_error(s3):
    use_options([f"s3.key={READER}", f"s3.secret={READER}"])
    try:
        with pytest.raises(PipelineError, match=r"(?i)output.not_writable.*access ?denied"):
            sole_writer(s3).__enter__()
    finally:
        use_options([])

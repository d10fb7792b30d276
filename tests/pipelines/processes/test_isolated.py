import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from pipelines.processes.exit_codes import EXIT_MEMORY
from pipelines.processes.isolated import IsolatedProcess, ProcessDied, isolate


def numbers(count, deed="nothing"):
    yield from range(count)
    if deed == "abort":
        os.abort()
    if deed == "raise":
        raise FileNotFoundError(2, "No such file", "x")
    if deed == "hang":
        time.sleep(60)
    if deed == "panic":
        raise type("PanicException", (BaseException,), {})("in Rust")


def held(n_bytes):
    memory = bytearray(os.urandom(1 << 20)) * (n_bytes >> 20)
    time.sleep(5)
    return len(memory)


@pytest.fixture
def process():
    process = IsolatedProcess()
    yield process
    process.close()


def test_values_come_back_and_the_process_is_used_again(process):
    assert list(process.each(numbers, 3)) == [0, 1, 2]
    first = process.call(os.getpid)
    assert first != os.getpid()
    assert process.call(os.getpid) == first


def test_what_is_raised_there_is_raised_here(process):
    with pytest.raises(FileNotFoundError) as caught:
        list(process.each(numbers, 1, "raise"))
    assert caught.value.filename == "x"
    assert process.running


@pytest.mark.parametrize("deed", ["abort", "panic"])
def test_a_process_that_dies_gives_what_it_had_and_is_replaced(process, deed):
    values = process.each(numbers, 2, deed)
    assert [next(values), next(values)] == [0, 1]
    with pytest.raises(ProcessDied, match=r"exit code"):
        next(values)
    assert process.call(os.getpid)


def test_one_that_hangs_is_killed(process):
    with pytest.raises(ProcessDied, match=r"1 s"):
        list(process.each(numbers, 2, "hang", seconds=1))
    assert not process.running


def test_one_that_holds_too_much_memory_ends_itself(process):
    process.max_bytes = 300 << 20
    with pytest.raises(ProcessDied, match=rf"exit code {EXIT_MEMORY}"):
        process.call(held, 600 << 20)


def test_a_reader_that_stops_early_leaves_no_values_to_the_next_call(process):
    for _ in process.each(numbers, 1000):
        break
    assert list(process.each(numbers, 2)) == [0, 1]


def test_it_sees_the_environment_as_it_is(process, monkeypatch):
    assert process.call(os.getenv, "SPANMARKER_TEST") is None
    monkeypatch.setenv("SPANMARKER_TEST", "1")
    assert process.call(os.getenv, "SPANMARKER_TEST") == "1"


def test_it_ends_with_its_parent():
    code = "import os, time; from pipelines.processes.isolated import IsolatedProcess\n"
    code += "print(IsolatedProcess().call(os.getpid), flush=True); time.sleep(60)"
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    child = psutil.Process(int(parent.stdout.readline()))
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    gone, _ = psutil.wait_procs([child], timeout=20)
    assert gone


@pytest.mark.parametrize("bad", [set(), {0}, {2, 3}, {4}, {1, 3}, {0, 1, 2, 3, 4}])
def test_isolate_finds_each_item_that_fails(bad):
    def work(start, end):
        if bad & set(range(start, end)):
            raise ValueError
        return list(range(start, end))

    good, position = [], 0
    for start, end, outcome in isolate(5, work):
        assert start == position
        position = end
        if isinstance(outcome, ValueError):
            assert {start} == set(range(start, end)) & bad
        else:
            good += outcome
    assert position == 5
    assert good == sorted(set(range(5)) - bad)

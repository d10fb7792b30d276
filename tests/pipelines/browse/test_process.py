"""The command as a process: started, asked, ended."""

import os
import signal
import subprocess
import sys
import time
import urllib.request

import pytest

from tests.support.browsed_output import add_shard, annotation, begin


@pytest.fixture
def output(tmp_path):
    begin(tmp_path / "out")
    add_shard(tmp_path / "out", "a", [annotation("d", 0, 3, "Ann")])
    return tmp_path / "out"


def start(output, *options):
    command = [sys.executable, "-m", "pipelines.cli", "browse", str(output), "--no-open", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def address(process):
    words = (word for line in process.stdout for word in line.split())
    return next(word for word in words if word.startswith("http://127.0.0.1:"))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_it_serves_until_it_is_ended(output, number, code):
    before = sorted((path, os.stat(path).st_mtime_ns) for path in output.rglob("*"))
    with start(output, "--port", "0") as process:
        with urllib.request.urlopen(address(process), timeout=30) as answer:
            assert b"Ann" in answer.read()
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == code
    assert "Traceback" not in errors
    assert sorted((path, os.stat(path).st_mtime_ns) for path in output.rglob("*")) == before


def test_a_port_in_use_ends_it_at_once(output):
    with start(output, "--port", "0") as first:
        port = address(first).rstrip("/").rpartition(":")[2]
        with start(output, "--port", port) as second:
            _, errors = second.communicate(timeout=60)
        assert second.returncode == 1
        assert errors.startswith("spanmarker: [browse.port_unusable]")
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=30)


def test_what_is_no_output_is_told(tmp_path):
    with start(tmp_path / "nothing") as process:
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert errors.startswith("spanmarker: [output.not_a_job]")


def test_a_client_that_says_nothing_keeps_nobody(output):
    import socket

    with start(output, "--port", "0") as process:
        url = address(process)
        port = int(url.rstrip("/").rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)):
            began = time.monotonic()
            with urllib.request.urlopen(url, timeout=30) as answer:
                assert answer.status == 200
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=30)
        assert time.monotonic() - began < 15
    assert process.returncode == 130

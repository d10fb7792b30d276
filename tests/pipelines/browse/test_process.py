"""The command as a process: started, asked, ended."""

import os
import signal
import socket
import urllib.request
from urllib.parse import urlsplit

import pytest

from tests.support.browsed_output import add_shard, annotation, begin
from tests.support.jobs import spanmarker
from tests.support.processes import finish, start


@pytest.fixture
def output(tmp_path):
    begin(tmp_path / "out")
    add_shard(tmp_path / "out", "a", [annotation("d", 0, 3, "Ann")])
    return tmp_path / "out"


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_it_serves_until_it_is_ended_and_a_client_that_says_nothing_keeps_nobody(output, number, code):
    before = sorted((path, os.stat(path).st_mtime_ns) for path in output.rglob("*"))
    process = start("browse", output, "--no-open", "--port", 0)
    words = (word for line in process.stdout for word in line.split())
    url = next(word for word in words if word.startswith("http://127.0.0.1:"))
    with socket.create_connection((urlsplit(url).hostname, urlsplit(url).port)):
        with urllib.request.urlopen(url, timeout=30) as answer:
            assert b"Ann" in answer.read()
        process.send_signal(number)
        process.wait(15)
    finish(process, code)
    assert sorted((path, os.stat(path).st_mtime_ns) for path in output.rglob("*")) == before


def test_a_port_in_use_ends_it_at_once(output):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = spanmarker("browse", output, "--no-open", "--port", taken.getsockname()[1])
    assert done.returncode == 1
    assert done.stderr.startswith("spanmarker: [browse.port_unusable]")


def test_what_is_no_output_is_told(tmp_path):
    done = spanmarker("browse", tmp_path / "nothing", "--no-open")
    assert done.returncode == 1
    assert done.stderr.startswith("spanmarker: [output.not_a_job]")

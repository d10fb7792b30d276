"""Ctrl-C and SIGTERM: the exit codes, what the first and the second do, and what is said."""

import signal
import subprocess
import sys

import pytest

from pipelines.commands.interruption import interruption
from pipelines.errors import Terminated
from tests.support.processes import environment

#: A command that waits, and takes long to end.
_WAITS = """
import sys, time
from pipelines.commands.interruption import interruptible
from pipelines.errors import exit_code
try:
    with interruptible():
        try:
            print("waiting", flush=True)
            time.sleep(60)
        finally:
            print("ending", flush=True)
            time.sleep(float(sys.argv[1]))
except KeyboardInterrupt as error:
    if len(sys.argv) > 2:
        print("leaving", flush=True)
        time.sleep(60)
    sys.exit(exit_code(error))
"""


@pytest.fixture
def waiting():
    """A function that starts the command and waits until it waits."""
    started = []

    def start(*arguments, shell=""):
        words = [*(["sh", "-c", shell, "sh"] if shell else []), sys.executable, "-c", _WAITS, *map(str, arguments)]
        pipe = subprocess.PIPE
        started.append(
            subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True, errors="surrogateescape", env=environment())
        )
        assert started[-1].stdout.readline() == "waiting\n"
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_ends_a_command_in_order_and_the_second_at_once(waiting, number, code):
    process = waiting(0)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (code, "ending\n", "")

    process = waiting(60, "caf\udce9")
    process.send_signal(number)
    assert process.stdout.readline() == "ending\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.startswith("spanmarker: ended at once. To continue, run the same command:\n  spanmarker 60 'caf\udce9'")
    assert "Traceback" not in err


def test_a_second_signal_on_the_way_out_adds_nothing(waiting):
    process = waiting(0, "slowly")
    process.send_signal(signal.SIGINT)
    assert [process.stdout.readline() for _ in range(2)] == ["ending\n", "leaving\n"]
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30)[1] == ""
    assert process.returncode == 130


def test_a_command_that_nohup_protects_from_ctrl_c_goes_on(waiting):
    process = waiting(0, shell="trap '' INT; exec \"$@\"")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 143


def test_an_interruption_says_what_is_kept_and_hides_secrets():
    error = Terminated()
    words = ["tag", "--input", "my docs", "--storage-option", "s3.secret=x", "--", "--password=y"]
    assert interruption(error, words).startswith("stopped by SIGTERM. Nothing was saved yet. To start over, ")
    error.add_note("2 of 3 shards are kept.")
    first, command = interruption(error, words).split("\n")
    assert first == "stopped by SIGTERM. 2 of 3 shards are kept. To continue, run the same command:"
    assert command == "  spanmarker tag --input 'my docs' --storage-option 's3.secret=…' -- '--password=…'"
    assert interruption(KeyboardInterrupt(), []).startswith("interrupted by Ctrl-C. ")

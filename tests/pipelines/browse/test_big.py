"""An output of millions of rows in bounded time and memory.

`python -m tests.pipelines.browse.test_big ROWS SHARDS` prints the figures of another size.
"""

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.pipelines.browse.latency import measured, peak_bytes
from tests.support.browsed_output import big_output

LIMIT = 700e6  # bytes: DuckDB's share, and what Python and its libraries hold


def figures(folder: Path, rows: int, shards: int) -> tuple[dict[str, list[float]], int]:
    """Return the seconds of each page of an output of this size, and the server's peak memory in bytes."""
    big_output(folder / "out", rows, shards)
    command = [sys.executable, "-m", "pipelines.cli", "browse", str(folder / "out"), "--no-open", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        words = (word for line in process.stdout for word in line.split())
        url = next(word for word in words if word.startswith("http://"))
        seconds = measured(url)
        peak = peak_bytes(process.pid)
        process.send_signal(signal.SIGINT)
    return seconds, peak


@pytest.mark.slow
def test_pages_of_two_million_rows_come_soon_and_cost_little(tmp_path):
    seconds, peak = figures(tmp_path, 2_000_000, 50)
    assert peak < LIMIT
    for name in ("first page", "texts of a search", "mentions", "search, common", "label", "a document"):
        assert min(seconds[name]) < 1, name
    assert max(map(min, seconds.values())) < 5
    assert "a document" in seconds


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        found, held = figures(Path(folder), int(sys.argv[1]), int(sys.argv[2]))
    for name, seconds in found.items():
        print(f"{name:24} {min(seconds):6.3f} s")
    print(f"peak memory {held / 1e6:,.0f} MB")

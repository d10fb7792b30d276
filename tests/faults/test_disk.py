"""Outputs that can't be written: full, too small a limit, read-only. The run ends soon, and no half shard stays."""

import os
import resource
import shutil
import subprocess
import sys

import pytest

from tests.support.jobs import documents, prepare, rows, spanmarker, tag, write_jsonl
from tests.support.processes import environment
from tests.support.rows import prepared

pytestmark = [pytest.mark.faults, pytest.mark.timeout(600)]


def run(verb, corpus, out, bundle, *options, **process):
    command = [sys.executable, "-m", "pipelines.cli", verb, "--input", str(corpus), "--output", str(out)]
    command += ["--model", str(bundle), "--workers", "1", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=500, env=environment(), **process)


def assert_told_and_no_half_shard(done, out, ending, reason):
    assert done.returncode == 3, done.stdout + done.stderr
    assert "[output.not_writable]" in done.stderr
    assert reason in done.stderr.lower()
    assert "Traceback" not in done.stderr
    assert {path.stem for path in out.rglob(f"*.{ending}")} == {path.stem for path in (out / "manifest").glob("*.json")}
    assert not list(out.rglob("*.scratch"))


@pytest.fixture
def corpus(tmp_path):
    return write_jsonl(tmp_path / "in.jsonl", documents(1500))


def test_file_too_large_for_the_limit(corpus, tmp_path, tiny_bundle):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))

    out = tmp_path / "out"
    done = run("tag", corpus, out, tiny_bundle, "--max-shard-bytes", "4194304", preexec_fn=limit)
    assert_told_and_no_half_shard(done, out, "parquet", "file too large")
    tag([corpus], out, tiny_bundle)
    assert len(rows(out, "documents")) == 1500


@pytest.fixture
def tiny_disk(tmp_path):
    """A mounted file system of 600 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if not mounted or mounted.returncode != 0:
        pytest.skip("needs the right to mount")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_full_disk_and_going_on_when_there_is_room(tmp_path, tiny_disk, tiny_bundle):
    corpus, out, filler = write_jsonl(tmp_path / "in.jsonl", documents(300)), tiny_disk / "out", tiny_disk / "filler"
    filler.write_bytes(b"x" * 500_000)
    done = run("prepare", corpus, out, tiny_bundle, "--max-shard-bytes", "10000")
    assert_told_and_no_half_shard(done, out, "arrow", "no space left")
    filler.unlink()
    prepare([corpus], out, tiny_bundle, max_shard_bytes=10000)
    assert len(prepared(out)["inputs"]) == 300


@pytest.fixture
def read_only(tmp_path):
    """A folder that can't be written, by root either."""
    folder = tmp_path / "read-only"
    folder.mkdir()
    if os.geteuid() != 0:
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)
        return
    if not shutil.which("chattr") or subprocess.run(["chattr", "+i", str(folder)], check=False).returncode:
        pytest.skip("root writes everywhere, and this file system has no immutable folders")
    yield folder
    subprocess.run(["chattr", "-i", str(folder)], check=True)


def assert_refused(corpus, out, bundle):
    done = spanmarker("tag", "--input", corpus, "--output", out, "--model", bundle)
    assert done.returncode == 1
    assert "[output.not_writable]" in done.stderr


def test_read_only_output(corpus, read_only, tiny_bundle):
    assert_refused(corpus, read_only, tiny_bundle)


def test_output_that_becomes_read_only_below(corpus, tmp_path, tiny_bundle):
    out = tmp_path / "out"
    tag([corpus], out, tiny_bundle)
    shutil.rmtree(out / "documents")
    (out / "documents").write_text("a file in place of the folder")
    assert_refused(corpus, out, tiny_bundle)

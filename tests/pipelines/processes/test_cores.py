"""The cores and threads that are used: affinity, quotas of control groups, and OMP_NUM_THREADS."""

import os
from pathlib import Path

import pytest

from pipelines.processes import cores as module
from pipelines.processes.cores import cores, threads_per_worker
from pipelines.processes.thread_limits import prepare_process


@pytest.fixture(autouse=True)
def sixteen_cores(monkeypatch):
    monkeypatch.setattr(module, "allowed_cores", lambda: 16)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


def write(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


V1 = "sys/fs/cgroup/cpu"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 16),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, 16),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "400000 100000\n"}, 4),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "250000 100000\n"}, 2),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"}, 1),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "9900000 100000\n"}, 16),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "nonsense"}, 16),
        # The group around this one allows less.
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/b/cpu.max": "800000 100000\n",
                "sys/fs/cgroup/a/cpu.max": "300000 100000\n",
            },
            3,
        ),
        # In a container, the path is that on the host, and the own group is mounted at the base.
        ({"proc/self/cgroup": "0::/host/pod\n", "sys/fs/cgroup/cpu.max": "200000 100000\n"}, 2),
        (
            {
                "proc/self/cgroup": "5:cpu,cpuacct:/docker/x\n3:memory:/\n",
                f"{V1}/cpu.cfs_quota_us": "600000\n",
                f"{V1}/cpu.cfs_period_us": "100000\n",
            },
            6,
        ),
        (
            {
                "proc/self/cgroup": "5:cpu,cpuacct:/\n",
                f"{V1}/cpu.cfs_quota_us": "-1\n",
                f"{V1}/cpu.cfs_period_us": "100000\n",
            },
            16,
        ),
    ],
)
def test_a_quota_limits_the_cores(tmp_path, files, expected):
    assert cores(write(tmp_path, files)) == expected


@pytest.mark.parametrize(
    ("given", "workers", "expected"),
    [(None, 1, 16), (None, 5, 3), (None, 40, 1), ("1", 1, 1), ("4,2", 2, 4), ("12", 4, 4), ("", 1, 16), ("x", 1, 16)],
)
def test_threads_are_a_share_of_the_cores_and_at_most_those_given(monkeypatch, given, workers, expected):
    monkeypatch.setattr(module, "_quota", lambda root: None)
    if given is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", given)
    assert threads_per_worker(workers) == expected


@pytest.mark.parametrize(("quota", "given", "expected"), [(2.0, None, "2"), (2.0, "5", "5"), (None, None, None)])
def test_a_command_starts_no_more_threads_than_its_quota_allows(monkeypatch, quota, given, expected):
    monkeypatch.setattr(module, "_quota", lambda root: quota)
    monkeypatch.setattr("pipelines.processes.thread_limits.allowed_cores", lambda: 16)
    monkeypatch.setenv("RAYON_NUM_THREADS", "1")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    monkeypatch.setenv("OMP_NUM_THREADS", given or "")
    if given is None:
        monkeypatch.delenv("OMP_NUM_THREADS")
    prepare_process(0)
    assert os.environ.get("OMP_NUM_THREADS") == expected

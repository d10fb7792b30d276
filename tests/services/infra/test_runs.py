"""What can run without a cluster is run: the manifests' own commands for Dask, and the recipes for Beam."""

import os
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from contextlib import ExitStack, contextmanager

import pyarrow.dataset as ds
import pytest

from tests.services.infra.checks import INFRA, ROOT, pods, render, tool
from tests.services.servers.seaweed import free_ports

DOCUMENTS = 3
INPUT = ("--input", str(INFRA / "demo" / "speeches.jsonl"))

pytestmark = pytest.mark.timeout(400)


@contextmanager
def running(command, folder, environment=()):
    # First on PATH is this Python, as Beam's pool of workers needs; and it finds the project, wherever it starts.
    paths = {"PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, cwd=folder, env=os.environ | paths | dict(environment))
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def tag(*arguments):
    command = [sys.executable, "-m", "pipelines.cli", "tag", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def documents(output):
    return ds.dataset(output / "documents", format="parquet").count_rows()


def wait_for(url):
    for _ in range(120):
        try:
            return urllib.request.urlopen(url, timeout=5).read()
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.5)
    raise AssertionError(f"{url} does not answer")


def test_the_commands_of_the_manifests_make_a_cluster(tmp_path):
    pytest.importorskip("distributed")
    manifests, _ = render(INFRA / "kubernetes" / "dask")
    deployments = [item for item in manifests if item["kind"] == "Deployment"]
    found = {item["metadata"]["name"]: next(pods(item))["containers"][0] for item in deployments}
    scheduler, worker = found["spanmarker-scheduler"], found["spanmarker-worker"]
    port, health = free_ports(2)
    address = f"tcp://127.0.0.1:{port}"
    here = {
        "8786": str(port),
        ":8787": f"127.0.0.1:{health}",
        "tcp://spanmarker-scheduler:8786": address,
        "--local-directory=/tmp": f"--local-directory={tmp_path}",
    }
    for container in (scheduler, worker):
        container["command"] = [tool("dask"), *(here.get(word, word) for word in container["command"][1:])]
    settings = [(item["name"], item["value"]) for item in scheduler["env"]]
    with running(scheduler["command"], tmp_path, settings):
        assert wait_for(f"http://127.0.0.1:{health}/health") == b"ok", "what the probes ask for"
        with running(worker["command"], tmp_path):
            job = ("--job", "infra/kubernetes/dask/tag.toml", "--scheduler", address, "--threads", "1")
            own = ("--output", str(tmp_path / "out"), "--metrics", str(tmp_path / "tag.prom"), "--resources", "CPU=1")
            tag(*job, *INPUT, *own)
    assert documents(tmp_path / "out") == DOCUMENTS


@pytest.mark.parametrize("recipe", ["local", "portable"])
def test_a_recipe_of_beam_runs(recipe, tmp_path):
    pytest.importorskip("apache_beam")
    path = INFRA / "beam" / f"{recipe}.toml"
    options = tomllib.loads(path.read_text())["beam_options"]
    with ExitStack() as stack:
        if recipe == "portable":
            jobs, pool = free_ports(2)
            options = [option.replace(":8099", f":{jobs}").replace(":50000", f":{pool}") for option in options]
            portability = "apache_beam.runners"
            for module, port in (
                (f"{portability}.portability.local_job_service_main", f"--job_port={jobs}"),
                (f"{portability}.worker.worker_pool_main", f"--service_port={pool}"),
            ):
                stack.enter_context(running([sys.executable, "-m", module, port], tmp_path))
        output = tmp_path / "out"
        tag("--job", str(path), *INPUT, "--output", str(output), "--", *options)
    assert documents(output) == DOCUMENTS

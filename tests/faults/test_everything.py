"""Anything dies, stops, or answers wrongly, at random moments. The same command again ends with a clean run's rows.

`--fault-rounds N` sets how many faults are injected (10); -s shows what was survived.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from pipelines.storage import resolve
from tests.faults.proxy import FaultyProxy
from tests.services.engines.dask_cluster import Cluster
from tests.services.servers.seaweed import Seaweed, running, weed
from tests.support.jobs import documents, write_jsonl, write_parquet
from tests.support.rows import difference, rows_of

pytestmark = [pytest.mark.faults, pytest.mark.timeout(7200)]

#: Seconds in which a run must end by itself after a fault, its own time limits included.
PATIENCE = 150
#: Beam's bundled runner waits for ever for a worker that was killed. What is promised is that the rerun is right.
BEAM_PATIENCE = 20
RERUNS = 4


@dataclass
class Scene:
    """A job under attack: how it is run, what is done to it, and what has to be mended before it is run again."""

    name: str
    options: list[str]
    attack: Callable[["Scene", subprocess.Popen, random.Random], bool]  # False if the job was quicker
    output: str
    mend: Callable[[], None] = lambda: None
    environment: dict[str, str] = field(default_factory=dict)
    patience: int = PATIENCE


def job(corpus: Path, bundle: Path, scene: Scene) -> subprocess.Popen:
    command = [sys.executable, "-m", "pipelines.cli", "tag", "--input", f"{corpus}/*", "--output", scene.output]
    command += ["--model", str(bundle), "--max-shard-bytes", "900", "--threads", "1", *scene.options]
    if "--scheduler" not in scene.options:
        command += ["--workers", "2"]
    environment = {**os.environ, **scene.environment}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)


def ended(process: subprocess.Popen, seconds: float) -> tuple[int | None, str]:
    """Wait for a job; one that does not end in time is killed, as a scheduler would. Return its exit code and words."""
    try:
        text = process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        kill_tree(process)
        return None, process.communicate()[0]
    return process.returncode, text


def kill_tree(process: subprocess.Popen) -> None:
    children = psutil.Process(process.pid).children(recursive=True)
    for each in [psutil.Process(process.pid), *children]:
        with suppress(psutil.NoSuchProcess):
            each.kill()


def working(process: subprocess.Popen, chance: random.Random) -> bool:
    """Wait until some shards are done, or the job is just at its start; False if the job was quicker."""
    if chance.random() < 0.8:
        process.stdout.readline()  # the workers are ready
    time.sleep(chance.uniform(0, 1.5))
    return process.poll() is None


def processes_of(process: subprocess.Popen, words: str) -> list[psutil.Process]:
    found = []
    for child in psutil.Process(process.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if words in " ".join(child.cmdline()):
                found.append(child)
    return found


def signal_one(words: str, sent: signal.Signals) -> Callable[[Scene, subprocess.Popen, random.Random], bool]:
    """An attack on one of the job's own processes."""

    def attack(scene: Scene, process: subprocess.Popen, chance: random.Random) -> bool:
        for _ in range(100):
            if not working(process, chance):
                return False
            if victims := processes_of(process, words):
                with suppress(psutil.NoSuchProcess):
                    chance.choice(victims).send_signal(sent)
                    return True
        return False

    return attack


def kill_job(scene: Scene, process: subprocess.Popen, chance: random.Random) -> bool:
    if not working(process, chance):
        return False
    process.kill()
    return True


class Dask:
    """A scheduler and two workers that the job uses and the attacks hit; `mend` brings back what is gone."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder, 0
        self.cluster: Cluster | None = None
        self.options: list[str] = []
        self.mend()

    def mend(self) -> None:
        if self.cluster is not None and all(process.poll() is None for process in self.cluster.processes):
            return
        self.close()
        self.count += 1
        self.cluster = Cluster(self.folder / str(self.count), SCHEDULER__WORKER_TTL="6s").__enter__()
        self.workers = [self.cluster.worker() for _ in range(2)]
        for worker in self.workers:
            self.cluster.ready(worker)
        self.options[:] = ["--engine", "dask", "--scheduler", self.cluster.address]

    def close(self) -> None:
        if self.cluster is not None:
            self.cluster.__exit__()

    def signal_worker(self, sent: signal.Signals) -> Callable[[Scene, subprocess.Popen, random.Random], bool]:
        def attack(scene: Scene, process: subprocess.Popen, chance: random.Random) -> bool:
            if not working(process, chance):
                return False
            nanny = psutil.Process(chance.choice(self.workers).pid)
            victims = [child for child in nanny.children() if "spawn_main" in " ".join(child.cmdline())]
            if not victims:
                return False
            victims[0].send_signal(sent)
            return True

        return attack

    def kill_scheduler(self, scene: Scene, process: subprocess.Popen, chance: random.Random) -> bool:
        if not working(process, chance):
            return False
        self.cluster.scheduler.kill()
        return True


class Store:
    """An S3 server, and a proxy before it that answers wrongly now and then."""

    def __init__(self, server: Seaweed, seed: int) -> None:
        self.server, self.proxy = server, FaultyProxy(server.port, seed, one_in=12)
        self.environment = server.environment
        self.faulty = {**server.environment, "AWS_ENDPOINT_URL": self.proxy.url}

    def kill(self, scene: Scene, process: subprocess.Popen, chance: random.Random) -> bool:
        if not working(process, chance):
            return False
        self.server.kill()
        time.sleep(chance.uniform(0, 3))
        self.server.start()
        return True

    def stumble(self, scene: Scene, process: subprocess.Popen, chance: random.Random) -> bool:
        before = self.proxy.injected.total()
        process.wait(PATIENCE)
        return self.proxy.injected.total() > before


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    write_jsonl(folder / "a.jsonl", [*documents(120, "a"), {"id": "n", "text": None}, b"{"])
    write_parquet(folder / "b.parquet", documents(80, "b"), row_group_size=10)
    return folder


@pytest.fixture(scope="module")
def scenes(tmp_path_factory, request):
    folder = tmp_path_factory.mktemp("scenes")
    here, bucket = str(folder / "out"), "s3://test/out"
    stops = ["--shard-timeout", "4"]
    with ExitStack() as stack:
        dask = Dask(folder / "dask")
        stack.callback(dask.close)
        dask_scene = {"options": dask.options, "output": here, "mend": dask.mend}
        found = [
            Scene("local: worker killed", [], signal_one("spawn_main", signal.SIGKILL), here),
            Scene("local: worker stopped", stops, signal_one("spawn_main", signal.SIGSTOP), here),
            Scene("local: job killed", [], kill_job, here),
            Scene("dask: worker killed", attack=dask.signal_worker(signal.SIGKILL), **dask_scene),
            Scene("dask: worker stopped", attack=dask.signal_worker(signal.SIGSTOP), **dask_scene),
            Scene("dask: scheduler killed", attack=dask.kill_scheduler, **dask_scene),
            Scene("dask: job killed", attack=kill_job, **dask_scene),
            Scene(
                "beam: worker killed",
                ["--engine", "beam"],
                signal_one("sdk_worker_main", signal.SIGKILL),
                here,
                patience=BEAM_PATIENCE,
            ),
            Scene("beam: job killed", ["--engine", "beam"], kill_job, here),
        ]
        if weed() is not None:
            server = stack.enter_context(running(tmp_path_factory.mktemp("seaweed")))
            store = Store(server, seed=5)
            stack.callback(store.proxy.close)
            stack.enter_context(server.in_use())
            found += [
                Scene("s3: server killed", [], store.kill, bucket, environment=store.environment),
                Scene("s3: wrong and slow answers", [], store.stumble, bucket, environment=store.faulty),
                Scene("s3: job killed", [], kill_job, bucket, environment=store.environment),
            ]
        yield found


def wipe(output: str) -> None:
    if output.startswith("s3://"):
        fs, path = resolve(output)
        if fs.exists(path):
            fs.rm(path, recursive=True)
    else:
        shutil.rmtree(output, ignore_errors=True)


def test_whatever_dies_the_rerun_has_the_rows_of_a_clean_run(corpus, scenes, tiny_bundle, tmp_path, request):
    clean = Scene("clean", [], kill_job, str(tmp_path / "clean"))
    code, text = ended(job(corpus, tiny_bundle, clean), 300)
    assert code == 0, text
    expected = rows_of(clean.output)
    assert len(expected["documents"]) == 202

    chance = random.Random(request.config.getoption("--fault-seed"))
    rounds = request.config.getoption("--fault-rounds")
    injected, survived, quick, alone = Counter(), Counter(), 0, Counter()
    lost = doubled = 0
    while injected.total() < rounds:
        scene = scenes[(injected.total() + quick) % len(scenes)]
        wipe(scene.output)
        process = job(corpus, tiny_bundle, scene)
        if not scene.attack(scene, process, chance):
            quick += 1
            ended(process, PATIENCE)
            assert quick <= 10 + 2 * rounds, "jobs are over before they can be hurt"
            continue
        injected[scene.name] += 1
        code, text = ended(process, scene.patience)
        alone[scene.name] += code == 0
        for _ in range(RERUNS):
            scene.mend()
            code, text = ended(job(corpus, tiny_bundle, scene), PATIENCE)
            if code == 0:
                break
        assert code == 0, f"{scene.name}: {text}"
        gone, more = difference(rows_of(scene.output), expected)
        lost, doubled = lost + gone, doubled + more
        survived[scene.name] += gone == more == 0
        print(f"{injected.total()}: {scene.name}: {gone} rows lost, {more} doubled", flush=True)
    print(f"\n{survived.total()} of {injected.total()} faults survived, {lost} rows lost, {doubled} doubled")
    for name, count in sorted(injected.items()):
        print(f"  {name}: {survived[name]} of {count}; the hurt run itself ended well {alone[name]} times")
    assert survived == injected

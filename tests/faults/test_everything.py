"""Anything dies, stops, or answers wrongly, at random moments. The same command again ends with a clean run's rows.

By default once each fault that no other test injects. `--fault-rounds N` injects N faults of all kinds, with jobs that
tag; -s shows what was survived.
"""

import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from pipelines.output.layout import SAMPLE_TABLES, TAG_TABLES
from pipelines.storage import resolve
from tests.faults.proxy import FaultyProxy
from tests.services.engines.dask_cluster import Cluster
from tests.services.servers.seaweed import Seaweed, weed
from tests.support.jobs import slow_documents, write_jsonl, write_parquet
from tests.support.processes import children, start
from tests.support.rows import difference, rows_of

pytestmark = [pytest.mark.faults, pytest.mark.timeout(7200)]

#: Seconds in which a run must end by itself after a fault, its own time limits included.
PATIENCE = 150
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
    alone: bool = False  # whether no other test injects this fault


def job(corpus: Path, bundle: Path, scene: Scene, verb: str) -> subprocess.Popen:
    words = [verb, "--input", f"{corpus}/*", "--output", scene.output, "--model", bundle, "--max-shard-bytes", 900]
    workers = [] if "--scheduler" in scene.options else ["--workers", 2]
    return start(*words, *workers, "--threads", 1, *scene.options, killers=True, **scene.environment)


def ended(process: subprocess.Popen, seconds: float) -> tuple[int | None, str]:
    """Wait for a job; one that does not end in time is killed, as a scheduler would. Return its exit code and words."""
    try:
        text = process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        for each in [*children(process.pid), process]:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        return None, process.communicate()[0]
    return process.returncode, text


def working(process: subprocess.Popen, chance: random.Random) -> bool:
    """Wait until some shards are done, or the job is just at its start; False if the job was quicker."""
    if chance.random() < 0.8:
        process.stdout.readline()  # the workers are ready
    time.sleep(chance.uniform(0, 1.5))
    return process.poll() is None


def signal_one(words: str, sent: signal.Signals) -> Callable[[Scene, subprocess.Popen, random.Random], bool]:
    """An attack on one of the job's own processes."""

    def attack(scene: Scene, process: subprocess.Popen, chance: random.Random) -> bool:
        for _ in range(100):
            if not working(process, chance):
                return False
            if victims := children(process.pid, words):
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
            if not (victims := children(chance.choice(self.workers).pid, "spawn_main", recursive=False)):
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
    write_jsonl(folder / "a.jsonl", [*slow_documents(120, "a"), {"id": "n", "text": None}, b"{"])
    write_parquet(folder / "b.parquet", slow_documents(80, "b"), row_group_size=10)
    return folder


@pytest.fixture(scope="module")
def scenes(tmp_path_factory, request):
    folder = tmp_path_factory.mktemp("scenes")
    here, bucket = str(folder / "out"), "s3://test/out"
    stops, beam = ["--shard-timeout", "4"], ["--engine", "beam"]
    with ExitStack() as stack:
        dask = Dask(folder / "dask")
        stack.callback(dask.close)
        dask_scene = {"options": dask.options, "output": here, "mend": dask.mend}
        found = [
            Scene("local: worker killed", [], signal_one("spawn_main", signal.SIGKILL), here),
            Scene("local: worker stopped", stops, signal_one("spawn_main", signal.SIGSTOP), here, alone=True),
            Scene("local: job killed", [], kill_job, here),
            Scene("dask: worker killed", attack=dask.signal_worker(signal.SIGKILL), **dask_scene),
            Scene("dask: worker stopped", attack=dask.signal_worker(signal.SIGSTOP), **dask_scene),
            Scene("dask: scheduler killed", attack=dask.kill_scheduler, **dask_scene),
            Scene("dask: job killed", attack=kill_job, **dask_scene, alone=True),
            Scene("beam: worker killed", beam, signal_one("sdk_worker_main", signal.SIGKILL), here, patience=20),
            Scene("beam: job killed", beam, kill_job, here),
        ]
        if weed() is not None:
            server = request.getfixturevalue("s3_server")
            store = Store(server, seed=5)
            stack.callback(store.proxy.close)
            stack.enter_context(server.in_use())
            found += [
                Scene("s3: server killed", [], store.kill, bucket, environment=store.environment),
                Scene("s3: wrong and slow answers", [], store.stumble, bucket, environment=store.faulty, alone=True),
                Scene("s3: job killed", [], kill_job, bucket, environment=store.environment, alone=True),
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
    rounds = request.config.getoption("--fault-rounds")
    # Engines know nothing of models, and workers that load none start quicker.
    verb, tables = ("tag", TAG_TABLES) if rounds else ("prepare", SAMPLE_TABLES)
    if not rounds:
        scenes = [scene for scene in scenes if scene.alone]
        rounds = len(scenes)
    clean = Scene("clean", [], kill_job, str(tmp_path / "clean"))
    code, text = ended(job(corpus, tiny_bundle, clean, verb), 300)
    assert code == 0, text
    expected = rows_of(clean.output, tables)
    assert len(expected[tables[1].name]) == 202

    chance = random.Random(request.config.getoption("--fault-seed"))
    injected, survived, quick, alone = Counter(), Counter(), 0, Counter()
    lost = doubled = 0
    while injected.total() < rounds:
        scene = scenes[injected.total() % len(scenes)]
        wipe(scene.output)
        process = job(corpus, tiny_bundle, scene, verb)
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
            code, text = ended(job(corpus, tiny_bundle, scene, verb), PATIENCE)
            if code == 0:
                break
        assert code == 0, f"{scene.name}: {text}"
        gone, more = difference(rows_of(scene.output, tables), expected)
        lost, doubled = lost + gone, doubled + more
        survived[scene.name] += gone == more == 0
        print(f"{injected.total()}: {scene.name}: {gone} rows lost, {more} doubled", flush=True)
    print(f"\n{survived.total()} of {injected.total()} faults survived, {lost} rows lost, {doubled} doubled")
    for name, count in sorted(injected.items()):
        print(f"  {name}: {survived[name]} of {count}; the hurt run itself ended well {alone[name]} times")
    assert survived == injected

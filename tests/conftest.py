"""Tiers by flag, groups of tests for parallel runs, examples for Hypothesis, and a tiny model for everyone."""

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

#: Each tier has a marker and a flag of its name. A test runs if every tier that it belongs to is asked for.
TIERS = {
    "slow": "takes long, or is one of many variants",
    "services": "starts engines in processes, servers, browsers or command-line tools",
    "faults": "kills processes and fills disks",
}
#: The tier of a folder's tests, except those marked `default`.
FOLDER_TIERS = {"services": "services", "faults": "faults"}
#: A test that uses one of these belongs to the tier, wherever it is.
FIXTURE_TIERS = {"browser": "services", "s3": "services", "s3_server": "services"}
#: Files and folders whose tests take long; the others are sorted by their number of tests.
LONG = (
    "tests/services/engines/",
    "tests/faults/",
    "tests/services/servers/",
    "tests/spanmarker_core/training/test_training",
    "tests/spanmarker_core/training/test_joint_training",
    "tests/spanmarker_core/models/test_every_architecture",
)

# The same examples in each run by default, and few of them; CI draws new ones.
hypothesis.settings.register_profile("dev", max_examples=15, deadline=None, derandomize=True, database=None)
hypothesis.settings.register_profile("ci", max_examples=100, deadline=None, print_blob=True)


def pytest_addoption(parser):
    for tier, what in TIERS.items():
        parser.addoption(f"--{tier}", action="store_true", help=f"also run what {what}")
    parser.addoption("--alone", action="store_true", help="run only the tests of the tiers services and faults")
    parser.addoption("--cpu-limit", type=float, help="fail tests of the default tier that take more CPU seconds")
    parser.addoption("--fault-rounds", type=int, default=0, help="faults of all kinds that tests/faults injects")
    parser.addoption("--fault-seed", type=int, default=1, help="what its moments are drawn from")


def pytest_configure(config):
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # By nohup; commands under test would ignore Ctrl-C too.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    hypothesis.settings.load_profile("ci" if config.getoption("--slow") else "dev")
    for tier, what in TIERS.items():
        config.addinivalue_line("markers", f"{tier}: {what}; runs with --{tier}")
    config.addinivalue_line("markers", "default: runs by default, whatever the tier of its folder")


def tiers(item) -> set[str]:
    """The tiers that a test belongs to; empty for one that always runs."""
    found = {tier for tier in TIERS if item.get_closest_marker(tier)}
    if not item.get_closest_marker("default"):
        folders = item.path.relative_to(Path(__file__).parent).parent.parts
        found |= {FOLDER_TIERS[folder] for folder in folders if folder in FOLDER_TIERS}
    return found | {FIXTURE_TIERS[name] for name in item.fixturenames if name in FIXTURE_TIERS}


def group(nodeid: str) -> str:
    """Return the group of a test: its file, because its tests share fixtures. One worker runs a whole group."""
    return nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """In place of xdist's own groups, whose marks have no effect with pytest 9."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return group(nodeid)

    return Groups(config, log)


def pytest_collection_modifyitems(config, items):
    asked = {tier for tier in TIERS if config.getoption(f"--{tier}")}
    sizes = Counter(group(item.nodeid) for item in items)
    for item in items:
        item.tiers = tiers(item)
        if missing := item.tiers - asked:
            item.add_marker(pytest.mark.skip(reason=f"needs {' '.join(f'--{tier}' for tier in sorted(missing))}"))
    if config.getoption("--alone"):
        others = [item for item in items if not item.tiers & {"services", "faults"}]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item.tiers & {"services", "faults"}]
    # What takes longest comes first, so that no worker is left alone with it at the end.
    items.sort(key=lambda item: order(group(item.nodeid), sizes))


def order(name: str, sizes: Counter[str]) -> tuple[object, ...]:
    return not name.startswith(LONG), -sizes[name], name


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    before = time.process_time()  # of this process, so that neither a busy machine nor other processes count
    result = yield
    item.cpu_seconds = time.process_time() - before
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    limit = item.config.getoption("--cpu-limit")
    # With --slow, properties are tested on many more examples than by default.
    exempt = item.tiers or (item.config.getoption("--slow") and hypothesis.is_hypothesis_test(item.obj))
    if limit and call.when == "call" and report.passed and not exempt and item.cpu_seconds > limit:
        report.outcome = "failed"
        report.longrepr = (
            f"This test took {item.cpu_seconds:.1f} s of CPU time. The limit for tests that run by default is "
            f"{limit:g} s: make it smaller, or mark it slow."
        )
    return report


@pytest.fixture(scope="session", autouse=True)
def inline_engine() -> None:
    """Let jobs name the engine "inline", which runs shards in this process."""
    from pipelines.engines import ENGINES

    ENGINES["inline"] = "tests.support.inline_engine"


@pytest.fixture(scope="session")
def tiny_bundle(tmp_path_factory) -> Path:
    """A folder with a tiny random BERT bundle (four labels, windows of 48 tokens)."""
    from tests.support.tiny import tiny_bundle as write

    return write(tmp_path_factory.mktemp("bundle") / "tiny")


@pytest.fixture(scope="session")
def tiny(tiny_bundle):
    """The tiny bundle, loaded."""
    from spanmarker_core import load

    return load(tiny_bundle)


@pytest.fixture(scope="session")
def encoder(tmp_path_factory) -> Path:
    """The folder of a tiny BERT for trainings, which leave it as it is."""
    from tests.support.training import write_encoder

    return write_encoder(tmp_path_factory.mktemp("encoder") / "bert")


@pytest.fixture
def hub(monkeypatch, tmp_path_factory):
    """A small hub with its own cache, to which this process's client goes."""
    from huggingface_hub import close_session, constants

    from tests.services.servers import hub

    with hub.running() as running:
        for name, value in {
            "ENDPOINT": running.url,
            "HUGGINGFACE_CO_URL_TEMPLATE": f"{running.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}",
            "HF_HUB_CACHE": str(tmp_path_factory.mktemp("hub")),
            "HF_HUB_DISABLE_XET": True,
            "HF_HUB_OFFLINE": False,
        }.items():
            monkeypatch.setattr(constants, name, value)
        monkeypatch.setenv("no_proxy", "*")
        close_session()  # It may remember that this process is offline.
        yield running
        close_session()


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory):
    """A SeaweedFS on loopback with a bucket called `test`."""
    from tests.services.servers.seaweed import running

    with running(tmp_path_factory.mktemp("seaweed")) as server:
        yield server


@pytest.fixture
def s3(s3_server, tmp_path) -> Iterator[str]:
    """A folder of the test's own in that server's bucket; the environment says where the server is."""
    if s3_server.process is None:  # A test that killed it has failed.
        s3_server.start()
    with s3_server.in_use():
        yield f"s3://test{tmp_path}"


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium. Its driver keeps an event loop in this thread, so it ends before other tests need theirs."""
    from tests.pipelines.pages.browser import running

    with running() as launched:
        yield launched

"""Test tiers by flag, and a tiny model for everyone."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

TIERS = ("slow", "faults")
#: Real processes, servers and faults: a machine that stalls for seconds can fail a test of these that is right.
PROCESSES = ("engines", "faults", "servers")


def pytest_addoption(parser):
    for tier in TIERS:
        parser.addoption(f"--{tier}", action="store_true", help=f"run the tests marked {tier}")
    parser.addoption("--fault-rounds", type=int, default=10, help="faults that tests/faults/test_everything.py injects")
    parser.addoption("--fault-seed", type=int, default=1, help="what its moments are drawn from")


def pytest_collection_modifyitems(config, items):
    for item in items:
        if item.path.parent.name in PROCESSES or item.get_closest_marker("faults"):
            item.add_marker(pytest.mark.flaky(reruns=1))  # told in the summary, and to be looked into
        for tier in TIERS:
            if item.get_closest_marker(tier) and not config.getoption(f"--{tier}"):
                item.add_marker(pytest.mark.skip(reason=f"needs --{tier}"))


@pytest.fixture(scope="session")
def tiny_bundle(tmp_path_factory) -> Path:
    """A folder with a tiny random BERT bundle (four labels, windows of 48 tokens)."""
    from tests.tiny import tiny_bundle as write

    return write(tmp_path_factory.mktemp("bundle") / "tiny")


@pytest.fixture(scope="session")
def tiny(tiny_bundle):
    """The tiny bundle, loaded."""
    from spanmarker_core import load

    return load(tiny_bundle)


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory):
    """A SeaweedFS on loopback with a bucket called `test`."""
    from tests.servers.seaweed import running

    with running(tmp_path_factory.mktemp("seaweed")) as server:
        yield server


@pytest.fixture
def s3(s3_server, tmp_path) -> Iterator[str]:
    """A folder of the test's own in that server's bucket; the environment says where the server is."""
    with s3_server.in_use():
        yield f"s3://test{tmp_path}"


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium. Its driver keeps an event loop in this thread, so it ends before other tests need theirs."""
    from tests.pages.browser import running

    with running() as launched:
        yield launched

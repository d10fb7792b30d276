"""Test tiers by flag, and a tiny model for everyone."""

import os
from pathlib import Path

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

TIERS = ("slow", "faults")


def pytest_addoption(parser):
    for tier in TIERS:
        parser.addoption(f"--{tier}", action="store_true", help=f"run the tests marked {tier}")


def pytest_collection_modifyitems(config, items):
    for item in items:
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

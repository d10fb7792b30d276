import pytest

from pipelines.engines import ENGINES


@pytest.fixture(autouse=True)
def inline_engine(monkeypatch):
    monkeypatch.setitem(ENGINES, "inline", "tests.pipelines.inline_engine")

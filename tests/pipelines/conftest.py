import pytest

from pipelines.engines import ENGINES


@pytest.fixture(autouse=True)
def inline_engine(monkeypatch):
    monkeypatch.setitem(ENGINES, "inline", "tests.pipelines.inline_engine")


@pytest.fixture(params=["local", "memory"])
def root(request, tmp_path):
    return str(tmp_path) if request.param == "local" else f"memory://test{tmp_path}"

import pytest

from pipelines.engines import ENGINES


@pytest.fixture(autouse=True)
def inline_engine(monkeypatch):
    monkeypatch.setitem(ENGINES, "inline", "tests.support.inline_engine")


@pytest.fixture(params=["local", "memory", pytest.param("s3", marks=pytest.mark.services)])
def root(request, tmp_path):
    if request.param == "s3":
        return request.getfixturevalue("s3")
    return str(tmp_path) if request.param == "local" else f"memory://test{tmp_path}"

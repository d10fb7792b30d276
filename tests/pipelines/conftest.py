import pytest


@pytest.fixture(scope="session")
def encoder(tmp_path_factory):
    """A folder with a tiny encoder."""
    from tests.spanmarker_core.training.test_initialise import write_encoder

    return write_encoder(tmp_path_factory.mktemp("encoder") / "bert", "bert")


@pytest.fixture(params=["local", "memory", pytest.param("s3", marks=pytest.mark.services)])
def root(request, tmp_path):
    if request.param == "s3":
        return request.getfixturevalue("s3")
    return str(tmp_path) if request.param == "local" else f"memory://test{tmp_path}"

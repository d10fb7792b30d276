"""An output in an object store is shown like one on this machine."""

import fsspec
import pytest

from pipelines.browse import catalogue as module
from tests.pipelines.browse.conftest import site
from tests.pipelines.browse.test_views import look
from tests.support.browsed_output import add_shard, annotation, begin, document


@pytest.fixture
def stored(tmp_path):
    """An output that was copied to a store, and its URL."""
    begin(tmp_path)
    rows = [annotation("a", 0, 3, "Ann"), annotation("a", 8, 12, "York", "place", entity_id=1)]
    add_shard(tmp_path, "a", rows, [document("a", "memory:///in/a.jsonl", 0, 12)])
    store = fsspec.filesystem("memory")
    store.put(str(tmp_path), "/browsed/out", recursive=True)
    store.pipe("/in/a.jsonl", b'{"id": "a", "text": "Ann met York"}\n')
    yield "memory:///browsed/out"
    store.rm("/browsed", recursive=True)
    store.rm("/in", recursive=True)


def test_an_output_in_a_store_is_searched_with_its_texts(stored):
    with site(stored, ["memory:///in"]) as pages:
        page = look(pages, "/")
        assert "Ann" in page.words
        assert "York" in page.words
        page = look(pages, "/mentions?q=york")
        assert "Ann met Yorkplace 0.90" in page.words
        (address,) = [link for link in page.to("/document") if "hit=" in link]
        assert "Annperson 0.90 met York" in look(pages, address).words
        assert "1 document." in look(pages, "/documents").words
        assert b"".join(pages.page("/download", "what=mentions").parts).count(b"\r\n") == 3


def test_a_store_is_read_again_after_a_while(stored, monkeypatch):
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(module, "_LOOK_SHARE", 1e9)
    monkeypatch.setattr(module, "_STORE_SECONDS", 1e-6)
    with site(stored, []) as pages:
        assert pages.live.now().count("annotations") == 2
        store = fsspec.filesystem("memory")
        for name in store.ls("/browsed/out/manifest", detail=False):
            store.rm(name)
        assert pages.live.now().count("annotations") == 0

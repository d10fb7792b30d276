import contextlib
import threading
from pathlib import Path

import pytest

from pipelines.browse.catalogue import LiveCatalogue, output_folder
from pipelines.browse.database import Database
from pipelines.browse.server import Server
from pipelines.browse.views import Site
from pipelines.texts.sources import Sources
from tests.support.hostile import hostile_output


@contextlib.contextmanager
def site(output, named=None):
    """Yield the pages of an output; `named` are the folders whose files may be read, the one it is in by default."""
    folder = output_folder(str(output))
    live, database = LiveCatalogue(folder), Database(folder)
    identity = live.now().identity
    named = [str(Path(folder).parent)] if named is None else named
    try:
        texts = Sources(folder, identity["id_column"], identity["text_column"], named)
        yield Site(folder, live, database, texts)
    finally:
        database.close()


@contextlib.contextmanager
def serving(output, named=None):
    """Yield the URL of a server of an output, in this process; `named` as in `site`."""
    with site(output, named) as pages, Server(0, pages.page, pages.error_page) as server:
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            yield server.url
        finally:
            server.stop()
            thread.join()


@pytest.fixture(scope="session")
def hostile(tmp_path_factory):
    return hostile_output(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def hostile_site(hostile):
    with site(hostile) as pages:
        yield pages


@pytest.fixture(scope="module")
def hostile_url(hostile):
    with serving(hostile) as url:
        yield url

"""The snippets of the README and of all pages run as they stand; links lead somewhere.

To renew the outputs that pages show: python -m tests.test_docs PAGE...
"""

import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support import doc_pages
from tests.support.doc_pages import ROOT, as_reader, blocks, masked, pages, run

#: Pages whose blocks other tests run, since they need an output of their own, and the languages that those run.
ELSEWHERE = {
    "docs/how-to/tables.md": ("tests/pipelines/snapshots/test_page.py", "python"),
    "docs/how-to/queries.md": ("tests/pipelines/report/test_report_queries.py", "sql"),
}
PAGES = {page.relative_to(ROOT).as_posix(): page for page in pages()}
RUN = [name for name, page in PAGES.items() if any(not block.skipped for block in blocks(page))]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reader") / "data"
    doc_pages.make_folder(folder)
    return folder


@pytest.fixture
def folder(prepared):
    with tempfile.TemporaryDirectory() as temporary:  # a short path, since tables break long ones
        yield shutil.copytree(prepared, Path(temporary).resolve() / "data", symlinks=True)


@pytest.mark.parametrize("name", RUN)
def test_snippets_run(name, folder):
    import spanmarker_core.integrations.spacy  # noqa: F401  # where the project is not installed, this registers it

    names: dict[str, object] = {}
    stale = []
    with as_reader(folder):
        for number, block in enumerate(blocks(PAGES[name])):
            if block.skipped or block.language == ELSEWHERE.get(name, ("", ""))[1]:
                continue
            printed = run(block, names, f"{name}, block {number}")
            shown = [output for _, output in block.commands()] if block.language == "console" else [block.output]
            if block.compared and any(shown):
                pairs = zip(shown, printed, strict=True)
                stale += [f"{old}\nnow:\n{new}" for old, new in pairs if masked(old or "") != masked(new)]
    assert not stale, "\n".join([f"run: python -m tests.test_docs {name}", *stale])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        base = Path(temporary).resolve()
        doc_pages.make_folder(base / "prepared")
        for each in sys.argv[1:]:
            path = Path(each).resolve()
            text = doc_pages.renewed(path, shutil.copytree(base / "prepared", base / path.stem / "data", symlinks=True))
            path.write_text(text, encoding="utf-8")
            print(each, flush=True)

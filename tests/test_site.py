"""The documentation as a site: it builds without warnings, its links lead somewhere, and generated pages are whole."""

import os
import re
import subprocess
import sys
from itertools import pairwise
from urllib.parse import urlsplit

import pytest
from markdown_it import MarkdownIt

from tests.support.doc_pages import ROOT, blocks, pages

DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS / "_ext"))

#: Pages that are written by hand, and those that link to them from the repository.
PAGES = [*pages(), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "infra" / "README.md"]


@pytest.fixture(scope="module")
def generated(tmp_path_factory) -> dict[str, str]:
    """Name -> text of the generated pages."""
    import generated_pages

    folder = tmp_path_factory.mktemp("generated")
    return {name: (folder / f"{name}.md").read_text(encoding="utf-8") for name in generated_pages.write(folder)}


def links(text: str) -> list[str]:
    tokens = MarkdownIt().enable("table").parse(text)
    inline = [child for token in tokens for child in token.children or []]
    return [str(child.attrs["href"]) for child in inline if child.type == "link_open"]


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, and those written as HTML."""
    tokens = MarkdownIt().parse(text)
    found = set(re.findall(r'<a id="([^"]+)"', text))
    for opening, heading in pairwise(tokens):
        if opening.type == "heading_open":
            plain = "".join(child.content for child in heading.children or [] if child.type in ("text", "code_inline"))
            found.add(re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links(page, generated):
    for link in links(page.read_text(encoding="utf-8")):
        target = urlsplit(link)
        if target.scheme:
            assert target.scheme in ("https", "http"), link
            assert re.fullmatch(r"[\w.-]+\.[a-z]+", target.hostname or ""), link
            continue
        path = (page.parent / target.path).resolve() if target.path else page
        if path.parent.name == "generated":
            assert path.stem in generated, link
            text = generated[path.stem]
        else:
            assert path.exists(), link
            text = path.read_text(encoding="utf-8") if path.suffix == ".md" else ""
        assert not target.fragment or target.fragment in anchors(text), f"{link}: {sorted(anchors(text))}"


def test_every_page_is_in_the_contents():
    contents = (DOCS / "index.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"(?m)^([\w/-]+)$", "".join(re.findall(r"(?s)```\{toctree\}.*?```", contents))))
    written = {page.relative_to(DOCS).with_suffix("").as_posix() for page in pages() if DOCS in page.parents}
    assert written - {"index"} == {name for name in listed if "generated" not in name}


def test_snippets_that_are_not_run():
    """Each says why. A new one raises the number here, so that somebody asks whether it has to be."""
    notes = [block.note for page in pages() for block in blocks(page) if block.skipped]
    assert all(re.fullmatch(r"not run: [\w`].{4,}", note) for note in notes), notes
    assert len(notes) == 41


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_fences(page):
    """A fence names its language, so that commands and code are not overlooked."""
    opening = re.findall(r"(?m)^ *```.*$", page.read_text(encoding="utf-8"))[::2]
    allowed = {"console", "python", "sql", "output", "text", "toml"}
    unknown = {line.strip(" `") for line in opening if not line.strip().startswith("```{")} - allowed
    assert unknown <= ({""} if page.parent == ROOT else set())  # The README has drawings without a language.


def test_commands_exist():
    """Commands and their options exist, also where the command is not run."""
    import commands

    known = {
        words: {flag for parameter in command.params for flag in [*parameter.opts, *parameter.secondary_opts]}
        for words, command in commands.tree().items()
    }
    seen = 0
    for page in pages():
        for block in blocks(page):
            for line in [command for command, _ in block.commands()] if block.language == "console" else []:
                for found in re.finditer(r"\bspanmarker ((?:gate )?[a-z-]+)\b([^|>]*)", line):
                    if found[1] not in known:
                        continue  # a word of a text, such as a file's name
                    options = re.findall(r"(?<= )--?[a-z][a-z-]*", found[2].partition(" -- ")[0].partition(" #")[0])
                    assert set(options) <= known[found[1]] | {"--help", "-h"}, f"{page.name}: {line}"
                    seen += 1
    assert seen > 50


def test_generated_pages_are_whole(generated):
    import commands

    import schemas
    from pipelines.errors import PipelineError
    from pipelines.runs.json_log import _EVENTS
    from spanmarker_core.errors import CoreError

    texts = "\n".join(generated.values())
    for words, command in commands.tree().items():
        page = next(text for name, text in generated.items() if f"```{{program}} spanmarker {words}\n" in text)
        for parameter in command.params:
            shown = parameter.opts[0] if parameter.param_type_name == "option" else parameter.metavar
            assert shown == "--help" or f"{{option}} {shown}" in page or parameter.hidden, (words, shown)
    for code in [*CoreError.MESSAGES, *PipelineError.MESSAGES]:
        assert f"### `{code}`" in generated["errors"]
    for name in schemas.__all__:
        if isinstance(table := getattr(schemas, name), schemas.Table):
            assert all(f"| `{column.name}` |" in generated["tables"] for column in table.schema)
    assert all(re.search(rf"(?m)^{re.escape(event)}\b", generated["metrics"]) for event in _EVENTS)
    assert "| `spanmarker_output_entities` | `label` |" in texts


def test_the_command_reference_needs_no_torch(tmp_path):
    code = "import sys, pathlib as p, generated_pages as g; g.write(p.Path(sys.argv[1])); print('torch' in sys.modules)"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(DOCS / "_ext"), str(ROOT)])}
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


@pytest.mark.slow
def test_the_site_builds_without_warnings(tmp_path):
    """About 35 seconds of CPU time."""
    pytest.importorskip("furo")
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-n", "-q"]
    done = subprocess.run([*command, "-d", tmp_path / "trees", DOCS, tmp_path / "html"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name in ("index", "reference/generated/commands-tag", "reference/python", "papers"):
        assert (tmp_path / "html" / f"{name}.html").is_file()
    assert "tag_text" in (tmp_path / "html" / "reference" / "python.html").read_text(encoding="utf-8")

"""Pages of hostile, damaged and huge outputs, as HTML."""

import json
import re
from html.parser import HTMLParser
from urllib.parse import parse_qs, urlsplit

import pytest

from pipelines.browse import database, parts
from pipelines.browse.database import Queries
from pipelines.browse.error_pages import PageError
from pipelines.browse.query import Page, RowPosition
from tests.pipelines.browse.conftest import site
from tests.support.browsed_output import add_shard, annotation, begin, document
from tests.support.hostile import STRINGS

_TAGS = {
    "html", "head", "meta", "title", "link", "style", "body", "header", "h1", "h2", "h3", "main", "footer", "script",
    "section", "nav", "a", "b", "p", "form", "label", "input", "select", "option", "button", "article", "bdi", "i",
    "mark", "div", "table", "caption", "thead", "tbody", "tr", "th", "td", "dl", "dt", "dd", "svg", "rect", "path",
    "span", "details", "summary", "ol", "ul", "li", "small", "wbr",
}  # fmt: skip


class Html(HTMLParser):
    """What elements a page has; fails on anything that no template of ours writes."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self.links, self.scripts, self.text = [], 0, []
        self._raw = False
        self.feed(content.decode())

    def handle_starttag(self, tag, attributes):
        assert tag in _TAGS, tag
        self._raw = tag in ("script", "style")
        self.scripts += tag == "script"
        for name, value in attributes:
            assert not name.startswith("on"), name
            assert name != "style"
            if name in ("href", "action", "src"):
                assert value.startswith(("/", "#", "data:,")), value
                if tag == "a":
                    self.links.append(value)

    def handle_endtag(self, tag):
        self._raw = False

    def handle_data(self, data):
        if not self._raw:
            self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join("".join(self.text).split())

    def to(self, path: str) -> list[str]:
        return [link for link in self.links if urlsplit(link).path == path]


def look(pages, address) -> Html:
    where = urlsplit(address)
    page = Html(pages.page(where.path, where.query))
    assert page.scripts == 1
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\u202a-\u202e\u2066-\u2069]", page.words)
    return page


def test_nothing_in_a_document_is_markup(hostile_site):
    documents = []
    for start in ("/", "/mentions", "/mentions?sort=text-up", "/documents", "/rejects"):
        page = look(hostile_site, start)
        assert "alert(1)" in page.words
        documents += page.to("/document")
    assert len(set(documents)) > 2 * len(STRINGS)
    for address in dict.fromkeys(documents):
        content = hostile_site.page(urlsplit(address).path, urlsplit(address).query)
        assert len(content) < 200_000
        Html(content)


def test_every_document_is_reached_whatever_its_id(hostile_site):
    for address in look(hostile_site, "/mentions").to("/document"):
        assert set(parse_qs(urlsplit(address).query)) == {"shard", "hit"}
        page = look(hostile_site, address)
        assert "The text is not shown" not in page.words
        assert "this one" in page.words


def test_documents_without_ids_are_shown(hostile_site):
    page = look(hostile_site, "/documents?status=rejected")
    addresses = [link for link in page.to("/document") if "row=" in link]
    assert len(addresses) == 2
    for address in addresses:
        assert "no readable id" in look(hostile_site, address).words


def test_a_label_is_found_by_its_link(hostile_site):
    page = look(hostile_site, "/mentions")
    links = [link for link in page.to("/mentions") if link.startswith("/mentions?label=")]
    assert len(links) > 20
    for link in links:
        assert "1 mention found." in look(hostile_site, link).words


@pytest.fixture
def article(tmp_path):
    """An output of one document, and the text that its source has."""
    begin(tmp_path / "out")
    text = "Ann met Bob in York. They left."
    source = tmp_path / "a.jsonl"
    source.write_text(json.dumps({"id": "a", "text": text}) + "\n")
    rows = [annotation("a", 0, 3, "Ann"), annotation("a", 8, 11, "Bob"), annotation("a", 15, 19, "York", "place")]
    rows = [row | {"entity_id": n} for n, row in enumerate(rows)]
    add_shard(tmp_path / "out", "a", rows, [document("a", str(source), 0, len(text))])
    with site(tmp_path / "out") as pages:
        yield pages, source, text


def test_an_entity_stands_in_its_sentence_and_leads_to_its_document(article):
    pages, _, _ = article
    page = look(pages, "/mentions?q=bob")
    assert "Annperson" not in page.words  # Only what was found is marked.
    assert "Ann met Bobperson 0.90 in York." in page.words
    assert "They left" not in page.words
    (address,) = page.to("/document")
    assert address.endswith("hit=1#hit")
    page = look(pages, address)
    assert "Annperson 0.90 met Bobthis oneperson 0.90 in Yorkplace 0.90. They left." in page.words


@pytest.mark.parametrize("change", ["gone", "longer", "other place", "other text"])
def test_a_changed_source_shows_entities_without_context(article, change):
    pages, source, text = article
    changed = {
        "longer": text + "!",
        "other place": " " + text[:-1],  # of the same length
        "other text": text.replace("York", "Cork"),  # where another entity still fits
    }
    if change == "gone":
        source.unlink()
    else:
        source.write_text(json.dumps({"id": "a", "text": changed[change]}) + "\n")
    page = look(pages, "/mentions?q=ann")
    if change != "other text":
        assert "Its sentence is not shown: its source" in page.words
    (address,) = page.to("/document")
    page = look(pages, address)
    assert "The text is not shown: its source" in page.words
    assert "met" not in page.words
    for name in ("Ann", "Bob", "York"):
        assert name in page.words
    assert 'id="text"' not in pages.page("/document", urlsplit(address).query).decode()


@pytest.mark.slow
def test_a_huge_document_is_shown_in_parts(tmp_path):
    count = 6_000
    text = "".join(f"Ann{n:05d} sat down here.{' ' if n % 9 else chr(10)}" for n in range(count))
    source = tmp_path / "huge.txt"
    source.write_text(text)
    begin(tmp_path / "out")
    starts = [text.index(f"Ann{n:05d}", n * 24) for n in range(count)]
    rows = [annotation("huge.txt", at, at + 8, text[at : at + 8], entity_id=n) for n, at in enumerate(starts)]
    add_shard(tmp_path / "out", "a", rows, [document("huge.txt", str(source), 0, len(text))])
    with site(tmp_path / "out") as pages:
        (address,) = look(pages, "/mentions?q=ann04321").to("/document")
        page = look(pages, address)
        assert "Ann04321this one" in page.words
        total = parts.parts_of(len(text))
        assert f"of {total}" in page.words
        assert page.words.count("Ann") < 1200
        shard = parse_qs(urlsplit(address).query)["shard"][0]
        seen = []
        for number in (1, 2, total // 2, total // 2 + 1, total):
            found = look(pages, f"/document?shard={shard}&row=0&part={number}").words
            seen.append(re.findall(r"(Ann\d{5})person", found))
        assert seen[0][0] == "Ann00000"
        assert seen[-1][-1] == f"Ann{count - 1:05d}"
        for first, second in ((seen[0], seen[1]), (seen[2], seen[3])):  # neighbours share none and leave none out
            assert int(second[0][3:]) == int(first[-1][3:]) + 1
        with pytest.raises(PageError):
            pages.page("/document", f"shard={shard}&row=0&part={total + 1}")


def test_an_output_in_which_nothing_is_done_is_shown(tmp_path):
    begin(tmp_path)
    with site(tmp_path) as pages:
        assert "No entity matches." in look(pages, "/").words
        assert "No entity matches." in look(pages, "/mentions").words
        assert "No document matches." in look(pages, "/documents").words
        assert "Nothing was rejected." in look(pages, "/rejects").words


def test_more_are_told_of_only_where_that_costs_nothing(hostile_site):
    page = look(hostile_site, "/mentions?q=a&match=part")
    assert re.search(r"\d+ mentions? found|Count all", page.words)
    for link in page.to("/mentions"):
        if "count=1" in link:
            assert re.search(r"\d+ mentions? found", look(hostile_site, link).words)


def test_what_was_found_before_the_time_was_over_is_shown(article, monkeypatch):
    pages, _, _ = article
    real = Queries.page

    def late(self, catalogue, query, after, limit):
        rows = real(self, catalogue, query, after, limit).rows
        self._deadline = 0.0
        return Page(rows, RowPosition(catalogue.names[0], -1), whole=False)

    monkeypatch.setattr(Queries, "page", late)
    page = look(pages, "/mentions?q=bob&count=1")
    assert "Searched 0 of 1 shards within the time limit. At least 0 mentions" in page.words
    assert "Ann met Bobperson 0.90 in York." in page.words
    (link,) = [link for link in page.to("/mentions") if "after=" in link]
    monkeypatch.undo()
    assert "Ann met Bobperson 0.90 in York." in look(pages, link).words


def test_entities_are_shown_where_their_documents_are_not_found_in_time(article, monkeypatch):
    pages, _, _ = article

    def late(self, owners):
        raise database.OutOfTime

    monkeypatch.setattr(Queries, "documents_of", late)
    page = look(pages, "/mentions?q=bob")
    assert "Its sentence is not shown: its document was not looked up." in page.words

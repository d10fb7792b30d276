"""The pages in a real browser: clicked through, on a wide screen and a phone, in light and dark."""

import json

import pytest

from tests.pipelines.browse.conftest import serving
from tests.pipelines.pages.browser import DESK, PHONE, assert_sound, opened
from tests.support.browsed_output import add_shard, annotation, begin, document

TEXT = (
    "Ann Lee met Bob in York.\nShe had come from the Isle of Man with 100% of <b>her</b> things. "
    "Bob, who works at the York Museum, showed Ann Lee around."
)
ENTITIES = [
    ("Ann Lee", "person"),
    ("Bob", "person"),
    ("York", "place"),
    ("Isle of Man", "place"),
    ("York Museum", "work"),
]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clicked")
    output, source = folder / "out", folder / "letters.jsonl"
    begin(output)
    rows, offset = [], 0
    documents = []
    with open(source, "wb") as file:
        for number in range(12):
            line = json.dumps({"id": f"letter {number}", "text": TEXT}).encode() + b"\n"
            file.write(line)
            documents.append(document(f"letter {number}", str(source), offset, len(TEXT), n_entities=5))
            offset += len(line)
            for place, (word, label) in enumerate(ENTITIES):
                start = TEXT.index(word)
                score = 0.5 + number / 50 + place / 100
                rows.append(
                    annotation(f"letter {number}", start, start + len(word), word, label, score=score, entity_id=place)
                )
    reject = {"document_id": "letter 12", "source": str(source), "source_row": offset, "stage": "read"}
    add_shard(
        output,
        "letters",
        rows,
        documents,
        [reject | {"code": "null_text", "message": "the text is null", "raw": b"{}"}],
    )
    with serving(output) as url:
        yield url


def test_texts_are_counted_narrowed_and_lead_to_their_mentions(browser, url):
    with opened(browser, url) as visit:
        page = visit.page
        assert page.locator("tbody tr").count() == len(ENTITIES)
        assert page.locator("tbody tr td:nth-child(2)").all_inner_texts() == ["12"] * len(ENTITIES)
        page.get_by_label("Entity", exact=True).fill("york")
        page.get_by_role("button", name="Search").click()
        assert page.locator("tbody tr td:first-child").all_inner_texts() == ["York", "York Museum"]
        page.get_by_role("list", name="Labels").get_by_role("link", name="work").click()
        assert page.locator("tbody tr td:first-child").all_inner_texts() == ["York Museum"]
        assert page.get_by_label("Entity", exact=True).input_value() == "york"
        with page.expect_download() as saved:
            page.get_by_role("link", name="CSV").click()
        lines = saved.value.path().read_text("utf-8").splitlines()
        assert lines[0] == "text,entities,mean_score,labels"
        assert lines[1].startswith("York Museum,12,")
        assert len(lines) == 2
        page.get_by_role("link", name="York Museum").click()
        assert "12 mentions found" in page.get_by_role("status").inner_text()
        assert page.locator(".sample li").count() == 12
        assert_sound(visit)


def test_an_entity_is_searched_filtered_and_seen_in_its_document(browser, url):
    with opened(browser, f"{url}mentions") as visit:
        page = visit.page
        assert page.locator(".sample li").count() == 25
        page.get_by_label("Entity", exact=True).fill("YORK")
        page.get_by_role("button", name="Search").click()
        assert "24 mentions found" in page.get_by_role("status").inner_text()
        page.get_by_role("list", name="Labels").get_by_role("link", name="work").click()
        page.get_by_text("Match, scores and order").click()
        page.get_by_label("Lowest score", exact=True).fill("0.7")
        page.get_by_label("Order").select_option("highest score first")
        page.get_by_label("Entity", exact=True).press("Enter")
        assert "4 mentions found" in page.get_by_role("status").inner_text()
        scores = [float(words.split()[-1]) for words in page.locator(".sample mark b").all_inner_texts()]
        assert scores == sorted(scores, reverse=True)
        assert min(scores) >= 0.7
        hit = page.locator(".sample li").first
        assert hit.locator("mark").inner_text().startswith("York Museum")
        hit.get_by_role("link").click()
        assert page.get_by_role("heading", level=1).inner_text() == "letter 11"
        text = page.locator("#text")
        assert text.locator("p mark").count() == 5 + 1  # all, and that this is the one
        assert "this one" in page.locator("#hit mark", has_text="York Museum").first.inner_text()
        assert "<b>her</b>" in text.inner_text()
        assert page.locator("#hit").evaluate("each => each.getBoundingClientRect().top") < 900
        page.get_by_role("button", name="Score").click()
        assert page.locator("th[aria-sort]").count() == 1
        page.get_by_role("link", name="Previous document").click()
        assert page.get_by_role("heading", level=1).inner_text() == "letter 10"
        page.get_by_role("list", name="Labels").get_by_role("link", name="place").click()
        assert text.locator("p mark").count() == 2
        page.get_by_role("link", name="all documents of this source").click()
        assert page.locator("tbody tr").count() == 12
        assert_sound(visit)


def test_pages_are_turned_and_every_entity_is_on_one(browser, url):
    with opened(browser, f"{url}mentions") as visit:
        page, seen = visit.page, 0
        while True:
            seen += page.locator(".sample li").count()
            if not page.get_by_role("link", name="Next page").count():
                break
            page.get_by_role("link", name="Next page").click()
        assert seen == 12 * len(ENTITIES)
        page.get_by_role("link", name="First page").click()
        page.get_by_role("list", name="Labels").get_by_role("link", name="place").click()
        assert "24 mentions found" in page.get_by_role("status").inner_text()
        page.get_by_role("link", name="Documents", exact=True).click()
        page.get_by_label("Document", exact=True).fill("letter 7")
        page.get_by_role("button", name="Search").click()
        page.locator("td").get_by_role("link", name="letter 7").click()
        assert page.locator("#text p mark").count() == 5
        page.get_by_role("link", name="Rejects").click()
        assert "the text is null" in page.locator("td").all_inner_texts()
        assert_sound(visit)


@pytest.mark.parametrize("path", ["", "mentions", "documents", "rejects", "nothing"])
def test_hostile_texts_do_nothing_and_fit(browser, hostile_url, path):
    for width, dark in ((PHONE, True), (DESK, False)):
        with opened(browser, hostile_url + path, width=width, dark=dark) as visit:
            visit.page.on("dialog", lambda dialog: pytest.fail("a script of a document ran"))
            if path == "nothing":
                visit.errors.clear()  # The browser tells of the 404.
            assert_sound(visit)
            links = visit.page.locator(".sample li a")
            for number in range(width == PHONE and links.count() and 3):
                links.nth(number).click()
                assert_sound(visit)
                visit.page.go_back()

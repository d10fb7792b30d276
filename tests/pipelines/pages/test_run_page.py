"""The run report as a page, in a real browser."""

import copy

import pytest

from pipelines.report.run_page import report_page
from tests.pipelines.pages.browser import DESK, PHONE, assert_sound, opened
from tests.pipelines.pages.gallery import HOSTILE
from tests.pipelines.report.test_report import values


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A report in which all that can be anybody's is hostile."""
    found = values(HOSTILE[0])
    for number, example in enumerate(HOSTILE[1:]):
        other = values(example)
        output, there = found["output"], other["output"]
        output["rejects"]["examples"] += there["rejects"]["examples"]
        output["entities_by_label"] |= {f"{name}{number}": count for name, count in there["entities_by_label"].items()}
        output["found"]["labels"] += [
            {**label, "label": f"{label['label']}{number}"} for label in there["found"]["labels"]
        ]
        for each in there["density"]["shown"]:
            output["density"]["shown"].append({**each, "words": 100 - number})
        output["slowest_shards"] += there["slowest_shards"]
        output["duplicate_ids_across_shards"]["examples"].append(example)
        found["job"][f"option {number}"] = [example]
        found["machine"][example[:50]] = example
    path = tmp_path_factory.mktemp("pages") / "report.html"
    path.write_bytes(report_page(found))
    return path


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("dark", [False, True])
def test_hostile_documents_are_only_text(browser, hostile, width, dark):
    with opened(browser, hostile, width=width, dark=dark) as visit:
        assert_sound(visit)
        assert visit.page.title().startswith("Run report: ")
        assert visit.page.locator("script").count() == 1
        assert visit.page.locator("img, [onload], [onerror], [style]").count() == 0
        assert visit.page.locator("td", has_text=HOSTILE[0]).count() > 3
    assert hostile.stat().st_size < 500_000  # a megabyte-long token is cut wherever it stands


def test_sources_sort_by_their_words(browser, hostile):
    with opened(browser, hostile) as visit:
        table = visit.page.locator("#documents table").first
        words = table.locator("tbody tr td:nth-child(4)")
        table.locator("th").nth(3).get_by_role("button").click()
        found = [int(text.replace(",", "")) for text in words.all_inner_texts()]
        assert found == sorted(found, reverse=True)
        table.locator("th").nth(3).get_by_role("button").click()
        assert [int(text.replace(",", "")) for text in words.all_inner_texts()] == found[::-1]
        assert_sound(visit)


def test_an_alarm_is_told_first(browser, hostile):
    with opened(browser, hostile) as visit:
        alarm = visit.page.get_by_role("alert").first
        assert "1 has too few entities" in alarm.inner_text()
        top = alarm.bounding_box()["y"]
        assert top < visit.page.locator("main").bounding_box()["y"]


def test_charts_and_numbers_are_there(browser, hostile):
    with opened(browser, hostile) as visit:
        assert visit.page.locator("#entities svg.chart rect.bar").count() == 20
        assert visit.page.locator("#speed svg.chart").count() == 0  # the speed of a run of two seconds says nothing
        visit.page.locator("#shards summary").click()
        assert visit.page.locator("#shards").get_by_text("no finished shard exists for these files").count() == 1


def test_it_prints(browser, hostile, tmp_path):
    with opened(browser, hostile) as visit:
        visit.page.emulate_media(media="print")
        visit.page.pdf(path=tmp_path / "report.pdf", format="A4")
        assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
        assert_sound(visit)


def test_without_entities_pace_or_rejects(browser, tmp_path):
    """Of a run that had nothing to find, and of one of samples."""
    empty = values("x")
    empty["this_run"] |= {"pace": [], "workers": [], "workers_in_all": 0, "shards_by_reason": {}}
    empty["output"]["rejects"] = {"by_code": {}, "examples": []}
    empty["output"]["entities_by_label"] = {}
    empty["output"]["found"] |= {"rows_looked_at": 0, "labels": []}
    empty["output"]["duplicate_ids_across_shards"]["documents"] = None
    samples = copy.deepcopy(empty)
    samples["output"] |= {"found": None, "density": None}
    for name, each in (("empty", empty), ("samples", samples)):
        path = tmp_path / f"{name}.html"
        path.write_bytes(report_page(each))
        with opened(browser, path, width=PHONE) as visit:
            assert_sound(visit)
            assert visit.page.locator("#entities").count() == (name == "empty")

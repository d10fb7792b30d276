"""The shell of all pages: hostile text in every part of it, in a real browser."""

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError

from pipelines import pages
from pipelines.pages.text import Mark, between_words, file_name, highlighted, name, shown
from spanmarker_core.text.invisible import INVISIBLE
from tests.pipelines.pages.browser import DESK, PHONE, assert_sound, opened
from tests.pipelines.pages.gallery import HOSTILE, gallery

#: What escapes, hides, turns or breaks text, among letters.
TEXTS = st.text(st.sampled_from("ab<>&\"'`{} \n\t\x00\x7f\u00ad\u200d\u202e\u2069\ufeff\ud800éש"), max_size=60)
MARKS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60), TEXTS), max_size=5)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "gallery.html"
    path.write_bytes(gallery())
    return path


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("dark", [False, True])
def test_hostile_text_is_only_text(browser, page, width, dark):
    with opened(browser, page, width=width, dark=dark) as visit:
        assert_sound(visit)
        assert visit.page.title() == f"Gallery {HOSTILE[0]}"
        assert visit.page.locator("script").count() == 1
        assert visit.page.locator("img").count() == 0
        assert visit.page.locator("[onload], [onerror], [style]").count() == 0


def test_tables_sort_by_numbers_and_by_words_both_ways(browser, page):
    with opened(browser, page) as visit:
        table = visit.page.locator("table").first

        def column(number):
            return table.locator(f"tbody tr td:nth-child({number})").all_inner_texts()

        table.get_by_role("button", name="support").click()
        assert column(3) == ["1,200", "12", "9", "3", ""]
        assert table.locator("th").nth(2).get_attribute("aria-sort") == "descending"
        table.get_by_role("button", name="support").click()
        assert column(3) == ["", "3", "9", "12", "1,200"]
        table.get_by_role("button", name="F1").click()
        assert column(2) == [f"{share}\xa0%" for share in ("100.0", "50.0", "40.0", "9.0")] + ["–"]
        assert table.locator("th[aria-sort]").count() == 1
        table.get_by_role("button", name="label").press("Enter")
        assert column(1) == [HOSTILE[0], "LOC", "none", "ORG", "PER"]
        assert_sound(visit)


def test_the_policy_refuses_what_is_not_the_pages_own(browser, page, tmp_path):
    """A fault in the escaping would still run nothing and fetch nothing."""
    planted = (
        b"<script>document.title='owned'</script><img src='http://127.0.0.1:9/x.png'><p style='color:red'>x</p></main>"
    )
    hurt = tmp_path / "hurt.html"
    hurt.write_bytes(page.read_bytes().replace(b"</main>", planted))
    with opened(browser, hurt) as visit:
        assert visit.page.title() == f"Gallery {HOSTILE[0]}"
        assert len(visit.errors) >= 3
        with pytest.raises(AssertionError):
            assert_sound(visit)


def test_paper_has_no_controls(browser, page):
    with opened(browser, page) as visit:
        visit.page.emulate_media(media="print")
        assert not visit.page.locator("nav").is_visible()
        assert visit.page.locator("table").first.is_visible()
        assert_sound(visit)


def test_a_name_that_a_template_misses_is_an_error():
    with pytest.raises(UndefinedError):
        pages._environment().from_string("{{ missing }}").render()


def test_forms_go_nowhere_unless_they_may():
    assert "form-action 'none'" in pages.policy()
    assert "form-action 'self'" in pages.policy(forms=True)


def plain(markup):
    """What is on the page, without labels and notes."""
    without = re.sub(r"<b>.*?</b>|<i class=\"u\">.*?</i>", "", markup, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]*>", "", without))


@given(TEXTS, MARKS)
def test_highlights_leave_the_text_as_it_is_and_close_what_they_open(text, drawn):
    places = [(sorted((min(a, len(text)), min(b, len(text)))), label[:5]) for a, b, label in drawn]
    marks = [Mark(start, end, label) for (start, end), label in places]
    made = highlighted(text, marks, limit=100)
    visible = INVISIBLE.sub(lambda found: found[0] if found[0] in "\r\n" else "", text)
    assert plain(made) == visible
    assert made.count("<mark") == made.count("</mark>")
    assert made.count("<b>") == sum(mark.start < mark.end for mark in marks)
    inner = re.findall(r"<(/?)(mark|b|i|bdi)", made)
    depth = []
    for closing, tag in inner:
        if closing:
            assert depth.pop() == tag
        else:
            depth.append(tag)
    assert depth == []


@given(TEXTS, st.integers(3, 100))
def test_what_is_shown_is_bounded_and_says_where_it_is_cut(text, limit):
    made = shown(text, limit)
    if len(text) <= limit + 12:  # an ellipsis in place of a few characters would hide more than it saves
        assert plain(made) == INVISIBLE.sub("", text)
        assert "title=" not in made
    else:
        assert len(plain(made)) <= limit + 1
        assert "…" in made
        assert 'title="' in made


def test_labels_are_never_cut_and_tooltips_hide_nothing():
    label = "location-road/railway/highway/transit"
    assert f"<b>{label}</b>" in highlighted("A road.", [Mark(2, 6, label)]).replace("<wbr>", "")
    assert str(shown("organization-media/newspaper", 24)) == "<bdi>organization-media/newspaper</bdi>"
    made = shown('a\u202eb"<' + "x" * 2000, 20)
    assert made.startswith('<bdi title="aU+202Eb&#34;&lt;xxx')
    assert len(made) < 1200


@pytest.mark.parametrize(
    ("text", "expected"), [("Ann", True), ("Zoë Łukasz", True), ("日本", False), ("a\u202eb", False), ("a" * 40, False)]
)
def test_only_marks_that_fit_a_phone_stay_on_one_line(text, expected):
    assert ("short" in highlighted(text, [Mark(0, len(text), "PER 0.90")])) is expected


def test_a_name_wraps_after_its_separators():
    assert str(name("s3://lake/a_<b>.txt")) == "<bdi>s3://<wbr>lake/<wbr>a_<wbr>&lt;b&gt;.txt</bdi>"
    assert len(name("a/" * 1000, 40)) < 1300


def test_a_file_name_has_its_path_as_a_tooltip():
    assert str(file_name('in/"a/<b>.txt')) == '<bdi title="in/&#34;a/&lt;b&gt;.txt">&lt;b&gt;.txt</bdi>'
    assert str(file_name("in/")) == '<bdi title="in/">in</bdi>'
    assert len(file_name("a" * 100_000)) < 1300


@given(st.text("ab \n", max_size=200), st.integers(0, 200), st.integers(0, 200))
def test_sections_begin_and_end_between_words(text, low, length):
    low = min(low, len(text))
    high = min(low + length, len(text))
    first, last = between_words(text, low, high)
    assert low <= first <= last <= high or (first, last) == (low, high)
    longest = max(map(len, text.split()), default=0)
    if longest < 30 and last - first > 2 * longest:
        assert first == 0 or text[first - 1].isspace()
        assert last == len(text) or text[last].isspace()


def test_highlights_of_a_long_text_are_a_part_of_it_and_count_the_rest():
    made = highlighted("a" * 1000, [Mark(500, 510, "X"), Mark(990, 1000, "Y")], limit=100)
    assert made.startswith("<bdi>… aaa")
    assert made.endswith('aaa …<i class="u">1 more entity</i></bdi>')
    assert made.count("<mark") == 1

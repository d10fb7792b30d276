"""The pages of an evaluation and of a comparison, with hostile text, in a real browser."""

import json
from pathlib import Path

import pytest

from pipelines.report.comparison_page import comparison_page
from pipelines.report.evaluation_page import evaluation_page
from spanmarker_core.data import Sentence, Span
from spanmarker_core.evaluation.report import to_json
from spanmarker_core.evaluation.scores.analysis import Analysis, Setting
from spanmarker_core.evaluation.scores.attributes import TrainingForms
from spanmarker_core.evaluation.scores.comparison import Comparison
from tests.pipelines.pages.browser import DESK, PHONE, assert_sound, opened
from tests.pipelines.pages.gallery import HOSTILE

#: Half a surrogate pair is refused where data are read.
TEXTS = [text.replace("\ud800", "\ufffd") for text in HOSTILE]


def hostile_data():
    """Sentences whose words, ids and labels are hostile, with every kind of error; nested gold."""
    for number, text in enumerate(TEXTS * 3):
        words = ["Ann", text, "met", text, "in", "New", "York", *[f"w{number}"] * 30]
        gold = [Span(0, 1, "PER"), Span(1, 2, text), Span(3, 7, "ORG"), Span(5, 7, "LOC"), Span(10, 12, "PER")]
        wrong = [Span(0, 1, text), Span(1, 3, text), Span(5, 7, "LOC"), Span(20, 22, "ORG"), Span(6, 8, "PER")]
        right = dict.fromkeys(gold[: number % 5], 0.5 + number / 100)
        yield Sentence(f"{text} {number}", number, words, gold), right, dict.fromkeys(wrong, 0.3 + number / 70)


def facts():
    return {"model": TEXTS[0], "data": TEXTS[4], "threshold": dict.fromkeys(TEXTS, 0.5)}


def write_evaluation(path: Path, *, training: bool = True, threshold: float | None = None) -> Path:
    forms = TrainingForms.of(sentence for sentence, _, _ in list(hostile_data())[:5]) if training else None
    analysis = Analysis(Setting(3, threshold), forms)
    for sentence, right, wrong in hostile_data():
        analysis.add(sentence, right | wrong)
    values = to_json(analysis.result(), facts(), analysis.to_json())
    path.write_bytes(evaluation_page(json.loads(json.dumps(values))))
    return path


def write_comparison(path: Path) -> Path:
    comparison = Comparison()
    for sentence, right, wrong in hostile_data():
        comparison.add(sentence, wrong, right)
    path.write_bytes(
        comparison_page(
            {
                **comparison.to_json(resamples=20),
                "attributes": {"eLen": {"words": "words", "differences": {"XS": 0.1, "S": None, "L": -0.2, "XL": 0}}},
                "reports": {
                    "first": {"folder": TEXTS[0], "facts": facts()},
                    "second": {"folder": "b", "facts": facts() | {"model": TEXTS[1]}},
                },
            }
        )
    )
    return path


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluation")
    return {
        "evaluation": write_evaluation(folder / "evaluation.html", threshold=0.5),
        "no_training": write_evaluation(folder / "no_training.html", training=False),
        "comparison": write_comparison(folder / "comparison.html"),
    }


@pytest.mark.parametrize("name", ["evaluation", "no_training", "comparison"])
@pytest.mark.parametrize(("width", "dark"), [(PHONE, False), (DESK, True)])
def test_hostile_data_is_only_text(browser, pages, name, width, dark):
    with opened(browser, pages[name], width=width, dark=dark) as visit:
        assert_sound(visit)
        page = visit.page
        assert page.title().partition(":")[0] in ("Evaluation", "Comparison")
        assert page.locator("script").count() == 1
        assert page.locator("main img").count() == 0
        assert page.locator("[onload], [onerror], [style]").count() == 0
        assert page.locator("mark.missed").count() > 0
        assert page.locator("mark.wrong").count() > 0
        assert page.locator("mark.right").count() > 0
    assert pages[name].stat().st_size < 2_000_000


def test_the_tables_sort(browser, pages):
    with opened(browser, pages["evaluation"]) as visit:
        labels = visit.page.locator("#scores table").first
        labels.get_by_role("button", name="Gold").click()
        counts = [int(text.replace(",", "")) for text in labels.locator("tbody tr td:nth-child(7)").all_inner_texts()]
        assert counts == sorted(counts, reverse=True)
        assert len(counts) > 5
        labels.get_by_role("button", name="Gold").click()
        again = [int(text.replace(",", "")) for text in labels.locator("tbody tr td:nth-child(7)").all_inner_texts()]
        assert again == sorted(counts)
        assert_sound(visit)


def test_the_page_says_what_the_numbers_are(browser, pages):
    with opened(browser, pages["evaluation"]) as visit:
        text = visit.page.locator("body").inner_text()
        for words in ("boundary error rate", "expected calibration error", "chosen: threshold 0.5", "as a result"):
            assert words in text
        for link in visit.page.locator("nav a").all():
            assert visit.page.locator(link.get_attribute("href")).count() == 1
    with opened(browser, pages["no_training"]) as visit:
        assert "--train" in visit.page.locator("#attributes").inner_text()


def test_examples_are_narrowed_to_a_label(browser, pages):
    with opened(browser, pages["evaluation"]) as visit:
        page, shown = visit.page, "li[data-labels]:visible"
        total = page.locator(shown).count()
        page.get_by_label("Errors of").select_option(index=2)
        few = page.locator(shown).count()
        assert 0 < few < total
        assert page.locator(".examples-of:visible").count() <= page.locator(".examples-of").count()
        page.get_by_label("Errors of").select_option(index=0)
        assert page.locator(shown).count() == total
        assert_sound(visit)


def test_the_verdict_of_a_comparison_is_its_heading(browser, pages):
    with opened(browser, pages["comparison"]) as visit:
        assert "F1 +" in visit.page.get_by_role("heading", level=1).inner_text()
        assert (
            visit.page.locator("#differences svg.forest").count() == visit.page.locator("#differences tbody tr").count()
        )
        assert "Newly found" in visit.page.locator(".cards").inner_text()

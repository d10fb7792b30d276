"""The page of an analysis of representations, in a real browser."""

import json

import numpy as np
import pytest

from pipelines.pages.figures import decimal
from pipelines.report.representations import publish_representations, to_markdown
from spanmarker_core.evaluation.representations.cosines import of_templates
from spanmarker_core.evaluation.representations.representations import of_sample
from spanmarker_core.evaluation.representations.span_features import RATIOS
from spanmarker_core.evaluation.representations.span_sample import SpanSample
from tests.pipelines.pages.browser import DESK, PHONE, assert_sound, opened
from tests.pipelines.pages.gallery import HOSTILE


def analysis(labels: list[str], spans: int = 60, size: int = 16, shift: float = 3.0) -> dict:
    """An analysis of clouds, one a class, coupled by half of their overlap."""
    random = np.random.default_rng(5)
    label = np.repeat(np.arange(len(labels) + 1), spans)
    centres = shift * random.normal(size=(len(labels) + 1, size))
    features = (centres[label] + random.normal(size=(len(label), size))).astype(np.float32)
    pairs = np.zeros((len(label), 2, RATIOS), np.int64)
    pairs[: spans * len(labels), :, :10] = 3
    sums = pairs * (0.3 + 0.05 * np.arange(RATIOS))
    seen = np.arange(len(labels) + 1, 0, -1) * spans
    sample = SpanSample(labels, seen, label, features, sums, pairs, 1234, 5)
    templates = of_templates(random.normal(size=(len(labels), size)), ["O", *labels[1:]], 0)
    facts = {"model": f"/models/{HOSTILE[0]}", "data": HOSTILE[9], "options": {"lstm": 0}}
    return of_sample(sample, templates, spans).to_json(facts)


@pytest.fixture(scope="module")
def values():
    # Half a surrogate pair is no label of data that can be read.
    hostile = [label[:5000].replace("\ud800", "") for label in (*HOSTILE[:7], HOSTILE[8], HOSTILE[9])]
    return analysis(["person", "organization", *hostile, *(f"label-{n}" for n in range(5))])


@pytest.fixture(scope="module")
def folder(values, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    assert publish_representations(str(folder), values) == str(folder / "representations.html")
    return folder


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_is_sound(browser, folder, width, dark):
    with opened(browser, folder / "representations.html", width=width, dark=dark) as visit:
        assert_sound(visit)
        assert visit.page.title().startswith("Representations: ")
        assert visit.page.locator("svg.chart").count() == 3
        assert visit.page.locator("img, [onload], [onerror], [style]").count() == 0
        heat = visit.page.locator("table.heat")
        assert heat.locator("tbody tr").count() == 9
        assert heat.locator("tbody th").last.inner_text() == "no entity"
        assert "The 8 least frequent classes" in visit.page.locator("#between").inner_text()


def test_what_the_page_says_is_what_the_json_says(browser, folder, values):
    stored = json.loads((folder / "representations.json").read_text("utf-8"))
    assert stored["cosines"] == values["cosines"]
    with opened(browser, folder / "representations.html") as visit:
        cards = dict(
            zip(
                visit.page.locator(".cards dt").all_inner_texts(),
                visit.page.locator(".cards dd").all_inner_texts(),
                strict=True,
            )
        )
        strong = next(each for each in stored["overlaps"] if each["name"] == "strong")
        assert cards["Strong overlap"].startswith(decimal(strong["cosine"], 3))
        assert cards["Within classes"].startswith(decimal(stored["cosines"]["within"], 3))
        assert cards["Norm of entities"].startswith(decimal(stored["entity_norm"], 2))
        classes = visit.page.locator("#classes table")
        assert classes.locator("tbody tr").count() == len(stored["norms"])
        classes.get_by_role("button", name="Within").click()
        within = [float(text) for text in classes.locator("tbody td:nth-child(6)").all_inner_texts()]
        assert within == sorted(within, reverse=True)
        notes = visit.page.locator(".note").all_inner_texts()
        assert "5 entities without a representation" in notes[0]
        assert "The model has no class for person" in notes[1]


def test_markdown_cells_hold(values):
    lines = to_markdown(values).splitlines()
    rows = [line for line in lines[lines.index("## Classes") :] if line.startswith("|")]
    bars = {line.replace("\\|", "").count("|") for line in rows[: len(values["norms"]) + 2]}
    assert bars == {9}
    assert not any(line.startswith("<") for line in lines)


def test_a_page_of_next_to_nothing(browser, tmp_path):
    found = analysis(["a"], spans=1)
    publish_representations(str(tmp_path), found)
    with opened(browser, tmp_path / "representations.html") as visit:
        assert_sound(visit)
        assert "–" in visit.page.locator(".cards").inner_text()

"""`spanmarker card` writes a bundle's card anew, and nothing else."""

import json

import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from spanmarker_core.bundle.reader import read_info
from spanmarker_core.card import read_card_facts
from spanmarker_core.errors import CoreError
from tests.support.tiny import tiny_bundle

LINES = [
    {
        "document_id": "d",
        "sentence_id": 0,
        "tokens": ["Ada", "ran"],
        "entities": [{"start": 0, "end": 1, "label": "person"}],
    },
    {"document_id": "d", "sentence_id": 1, "tokens": ["so", "did", "I"], "entities": []},
]


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in LINES), encoding="utf-8")
    return str(path)


def run(*arguments):
    result = CliRunner().invoke(app, ["card", *map(str, arguments)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_what_is_stated_is_kept_and_can_be_taken_back(tmp_path, data):
    bundle = tiny_bundle(tmp_path / "bundle")
    before = read_info(bundle)
    assert run(bundle, "--name", "Tiny | one", "--licence-id", "mit", "--train", data).exit_code == 0
    assert run(bundle, "--licence-id", "").exit_code == 0
    page = (bundle / "README.md").read_text(encoding="utf-8")
    assert "# Tiny \\| one\n" in page
    assert '| person | "Ada" | 1 | 100.0% |' in page
    assert "\nlicense: unknown\n" in page
    assert list(read_card_facts(bundle)) == ["data", "name"]
    assert read_info(bundle) == before


@pytest.mark.parametrize(("known", "fits"), [((2, 1), True), ((1, 1), True), ((2, 2), False), ((3, 1), False)])
def test_other_data_than_those_of_the_training_are_refused(tmp_path, data, known, fits):
    bundle = tiny_bundle(
        tmp_path / "bundle", facts=dict(zip(("train_sentences", "train_entities"), known, strict=True))
    )
    if not fits:
        with pytest.raises(CoreError) as caught:
            run(bundle, "--train", data)
        assert (caught.value.code, caught.value.values["found"]) == ("card.other_data", "2 sentences with 1 entities")
        return
    assert run(bundle, "--train", data).exit_code == 0
    assert read_card_facts(bundle)["data"]["sentences"] == known[0]


def test_a_folder_that_is_no_bundle_is_left_alone(tmp_path):
    with pytest.raises(CoreError, match=r"bundle.not_found"):
        run(tmp_path, "--name", "x")
    assert list(tmp_path.iterdir()) == []


def dev_file(path, sentences):
    words = ["He", "was", "in", "it", "on", "the", "for", "of", "York"]
    lines = [{**LINES[0], "document_id": f"d{number}", "tokens": words} for number in sentences]
    path.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    return path


def test_the_density_of_dev_data_is_measured_and_can_not_be_that_of_others(tmp_path):
    bundle = tiny_bundle(tmp_path / "bundle", facts={"dev_sentences": 250})
    before = read_info(bundle)
    assert run(bundle, "--dev", dev_file(tmp_path / "dev.jsonl", range(250))).exit_code == 0
    found = read_card_facts(bundle)["density"]
    assert (found["words"], found["blocks"], found["selected"]) == (250 * 9, 2, True)
    assert found["entities"] > 0
    assert read_info(bundle) == before
    with pytest.raises(CoreError, match=r"card.other_data.*249 sentences.*250 for dev"):
        run(bundle, "--dev", dev_file(tmp_path / "dev.jsonl", range(249)))


def test_dev_data_that_are_too_few_take_the_density_back(tmp_path):
    bundle = tiny_bundle(tmp_path / "bundle")
    run(bundle, "--dev", dev_file(tmp_path / "dev.jsonl", range(250)))
    assert "density" in read_card_facts(bundle)
    run(bundle, "--dev", dev_file(tmp_path / "dev.jsonl", range(3)))
    assert read_card_facts(bundle) == {}

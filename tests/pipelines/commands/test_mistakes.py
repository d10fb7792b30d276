"""What the commands answer to mistakes is as it was reviewed, in `mistakes.txt`."""

import re

import pytest

from tests.pipelines.commands import mistakes


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> str:
    return mistakes.snapshot(tmp_path_factory.mktemp("mistakes").resolve())


def test_answers_are_as_reviewed(written):
    reviewed = mistakes.SNAPSHOT.read_text(encoding="utf-8")
    assert reviewed == written, "run: python -m tests.pipelines.commands.mistakes"


def test_every_mistake_has_one_error(written):
    answers = re.split(r"(?m)^\$ ", written)[1:]
    assert len(answers) >= 100
    for answer in answers:
        assert len(re.findall(r"(?m)^spanmarker: ", answer)) == 1, answer
        assert len(re.findall(r"\[[a-z]+\.[a-z_0-9]+\]", answer)) == (0 if "(exit code 2)" in answer else 1), answer
        assert re.search(r"\(exit code [1245]\)\n", answer), answer  # None of them may be repeated as it is.


@pytest.mark.parametrize("internal", ["Errno", "Traceback", "pydantic", "nput should be", "Field required", "NoneType"])
def test_no_answer_shows_what_is_inside(written, internal):
    assert internal not in written

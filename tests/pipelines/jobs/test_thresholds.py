"""Thresholds of all labels, of single labels, and of both."""

from dataclasses import replace

import pytest

from pipelines.errors import PipelineError
from pipelines.jobs.job_file import read_job
from pipelines.jobs.tag import TagJob
from pipelines.jobs.thresholds import for_model
from spanmarker_core.bundle.reader import read_info

GIVEN = {"input": ["a"], "output": "o"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (0.3, 0.3),
        ("0.3", 0.3),
        (["0.3"], 0.3),
        (["work=1", "0.3", "person=.50"], ["0.3", "person=0.5", "work=1.0"]),
        ([0.3, "person=0.5"], ["0.3", "person=0.5"]),
        ({"person": 0.5}, ["person=0.5"]),
        ("a=b=0.5", ["a=b=0.5"]),
    ],
)
def test_all_forms_are_read_as_one(value, expected):
    assert TagJob(**GIVEN, threshold=value).threshold == expected


@pytest.mark.parametrize(
    "value", ["high", 2, -0.1, True, "nan", ["person=2"], ["0.1", "0.2"], ["a=0.1", "a=0.2"], "=0.5", {"a": None}]
)
def test_what_is_no_threshold_is_refused(value):
    with pytest.raises(PipelineError, match=r"job\.invalid"):
        read_job(TagJob, None, {**GIVEN, "threshold": value})


def test_options_override_the_table_of_a_file_by_label(tmp_path):
    (tmp_path / "job.toml").write_text("threshold = { person = 0.4, work = 0.6 }")
    job = read_job(TagJob, str(tmp_path / "job.toml"), {**GIVEN, "threshold": ["work=0.7"]})
    assert job.threshold == ["person=0.4", "work=0.7"]
    assert read_job(TagJob, str(tmp_path / "job.toml"), {**GIVEN, "threshold": ["0.9"]}).threshold == 0.9


def test_the_identity_and_the_task_know_the_scores_of_labels(tiny_bundle):
    info = read_info(tiny_bundle)
    assert info.config.threshold is None

    def made(**options):
        job = TagJob(**GIVEN, **options)
        return job.identity(info), job.task(info, "")

    identity, task = made()
    assert (identity["threshold"], task.thresholds, task.labels) == ("None", None, ())
    assert identity.keys().isdisjoint({"labels", "limit"})
    assert made(threshold=0.3)[0]["threshold"] == "0.3"
    identity, task = made(threshold=["0.3", "person=0.5"], labels="work, person", limit=7)
    assert (identity["threshold"], identity["labels"], identity["limit"]) == ("0.3, person=0.5", "person,work", "7")
    assert task.thresholds == {"location": 0.3, "person": 0.5, "work": 0.3}
    assert task.labels == ("person", "work")
    hash(task)
    identity, task = made(threshold="person=0.5")
    assert identity["threshold"] == "None, person=0.5"
    assert task.thresholds == {"location": None, "person": 0.5, "work": None}


def test_scores_of_labels_are_laid_over_those_that_the_bundle_stores(tiny_bundle):
    config = read_info(tiny_bundle).config
    stored = replace(config, threshold={"person": 0.4, "work": 0.6})
    assert for_model(["work=0.7"], stored) == (("person", 0.4), ("work", 0.7))
    assert dict(for_model(["location=0.2"], stored)) == {"location": 0.2, "person": 0.4, "work": 0.6}
    assert dict(for_model(["0.1", "work=0.7"], stored)) == {"location": 0.1, "person": 0.1, "work": 0.7}
    assert for_model(None, stored) is None


@pytest.mark.parametrize(("option", "value"), [("threshold", "persom=0.5"), ("labels", "persom")])
def test_a_label_that_the_model_lacks_is_refused_with_a_likely_one(tiny_bundle, option, value):
    with pytest.raises(PipelineError) as caught:
        TagJob(**GIVEN, **{option: value}).identity(read_info(tiny_bundle))
    assert (caught.value.code, caught.value.values["label"]) == ("job.unknown_label", "persom")
    assert caught.value.values["option"] == f"--{option}"
    assert "person" in caught.value.values["suggestion"]

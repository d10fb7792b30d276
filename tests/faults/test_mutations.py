"""Damaged files: the campaign of `mutations`, at the size of CI, and damage to what this program itself stores.

Documents are prepared: what is damaged comes before the model, and a worker without one is quickly replaced.
"""

import io
import itertools
import random
import shutil

import pytest
from rich.console import Console

from pipelines.jobs.prepare import PrepareJob
from pipelines.jobs.tag import TagJob
from pipelines.runs.run import run_job
from spanmarker_core.errors import CodedError
from tests.faults.mutations import (
    annotated_command,
    annotated_files,
    campaign,
    corpus_files,
    damaged,
    document_command,
    every_bit,
    h1_file,
    read_all,
)
from tests.support.jobs import all_rows, documents, write_jsonl

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1800)]
SEED = 15
STORED_CASES = 25


@pytest.mark.parametrize(
    ("originals", "count", "least"),
    [
        (corpus_files, 1200, {"": 100, "unreadable_rows": 20, "unreadable_file": 100, "damaged_file": 20}),
        (annotated_files, 400, {"": 20, "unreadable_file": 20}),
    ],
)
def test_damaged_inputs_are_accounted_for(tmp_path, originals, count, least):
    """At least so many become rejects with these codes, or lose nothing."""
    command = annotated_command(tmp_path) if originals is annotated_files else document_command(tmp_path, "prepare")
    cases = itertools.islice(damaged(originals(), SEED), count)
    outcomes = campaign(cases, originals(), command, count)
    for code, number in least.items():
        assert outcomes[f"rejected: {code}" if code else "all documents"] > number


def test_a_page_header_that_ends_a_row_group_early_loses_no_document(tmp_path):
    original = h1_file()
    pages = itertools.islice(every_bit(original), 400)  # of the first pages
    outcomes = campaign(pages, [original], document_command(tmp_path, "prepare"), 400)
    assert outcomes["rejected: unreadable_rows"] > 60


def test_damaged_inputs_are_accounted_for_without_a_run(tmp_path):
    outcomes = read_all(itertools.islice(damaged(corpus_files(), SEED), 200), tmp_path)
    assert outcomes["all documents"] > 20 < outcomes["rejected: unreadable_file"]


def run(job, **values):
    run_job(job(engine="inline", max_shard_bytes=900, **values), Console(file=io.StringIO()))


def damage_one(folder, patterns, draw):
    """Change or cut one of the files that match; return its name."""
    found = sorted(path for pattern in patterns for path in folder.glob(pattern))
    path = draw.choice(found)
    content = bytearray(path.read_bytes())
    position = draw.randrange(len(content))
    if draw.random() < 0.2:
        del content[position:]
    else:
        content[position] ^= 1 << draw.randrange(8)
    path.write_bytes(content)
    return path.relative_to(folder)


@pytest.mark.parametrize("verb", ["tag", "samples"])
def test_damage_to_what_is_stored_is_healed_or_named(tmp_path, tiny_bundle, verb):
    """The same command then ends with the same rows, or with a coded error."""
    corpus = write_jsonl(tmp_path / "a.jsonl", documents(40))
    clean = tmp_path / "clean"
    run(TagJob, input=[str(corpus)], output=str(clean), model=str(tiny_bundle))
    expected = all_rows(clean)
    samples = tmp_path / "samples"
    run(PrepareJob, input=[str(corpus)], output=str(samples), model=str(tiny_bundle))
    draw, errors = random.Random(SEED), []
    for number in range(STORED_CASES):
        folder = tmp_path / f"case{number}"
        if verb == "tag":
            shutil.copytree(clean, folder)
            where = damage_one(folder, ["manifest/*.json", "plan.jsonl", "job.json", "report.json"], draw)
            values = {"input": [str(corpus)], "output": str(folder)}
        else:
            shutil.copytree(samples, folder)
            where = damage_one(folder, ["samples/*.arrow", "inputs/*.arrow", "manifest/*.json", "plan.jsonl"], draw)
            values = {"samples": str(folder), "output": str(tmp_path / f"out{number}")}
        try:
            if verb == "tag":
                run(TagJob, **values, model=str(tiny_bundle))
            else:
                run_job(TagJob(engine="inline", model=str(tiny_bundle), **values), Console(file=io.StringIO()))
        except CodedError as error:
            errors.append((str(where), error.code))
        else:
            assert all_rows(values["output"]) == expected, where
    if verb == "tag":  # An entry that is damaged is made again; only the job's own file is the user's to look at.
        assert {where for where, _ in errors} <= {"job.json"}

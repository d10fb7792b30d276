"""Problems of a job name the option or the line of the file, and what was perhaps meant."""

import errno
import os

import pytest

from pipelines.errors import PipelineError, exit_code
from pipelines.jobs.job_file import read_job
from pipelines.jobs.prepare import PrepareJob
from pipelines.jobs.tag import TagJob
from pipelines.jobs.train import TrainJob

GIVEN = {"input": ["a"], "output": "o"}


def lines(kind, options, text=None, path=None):
    if text is not None:
        path.write_text(text)
    with pytest.raises(PipelineError) as caught:
        read_job(kind, None if path is None else str(path), options)
    assert caught.value.code == "job.invalid"
    return caught.value.values["problems"].splitlines()


@pytest.mark.parametrize(
    ("kind", "options", "start"),
    [
        (TagJob, {"input": ["a"], "output": None}, "  --output is missing: "),
        (TagJob, {"input": None, "output": "o"}, "  --input is missing: "),
        (PrepareJob, {"input": None, "output": "o"}, "  --input is missing: "),
        (TagJob, {**GIVEN, "output": ""}, "  --output is empty"),
        (TagJob, {**GIVEN, "gate": "of"}, "  --gate: 'of' is not one of auto, on, off"),
        (TagJob, {**GIVEN, "workers": 0}, "  --workers: 0 is less than 1"),
        (TagJob, {**GIVEN, "threshold": ["50"]}, "  --threshold: 50 is not a number from 0 to 1; did you mean 0.5?"),
        (TagJob, {**GIVEN, "samples": "s"}, "  --samples: it replaces --input"),
        (TrainJob, {"train": "t", "dev": "d", "encoder": "e", "output": "o", "options": ["x"]}, "  --option: "),
    ],
)
def test_an_option_is_named_as_on_the_command_line(kind, options, start):
    (line,) = lines(kind, options)
    assert line.startswith(start)


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ('\ntext_colum = "x"', "job.toml, line 2: unknown key text_colum; did you mean text_column?"),
        ('text-column = "x"', "job.toml, line 1: unknown key text-column; did you mean text_column?"),
        ("zzz = 1", "job.toml, line 1: unknown key zzz"),
        ('prune = "perhaps"', "job.toml, line 1: prune: 'perhaps' is not true or false"),
        ('engine="dask"\n[resources]\nGPU = "x"', "job.toml, line 3: resources.GPU: 'x' is not a number"),
    ],
)
def test_a_setting_of_a_file_is_named_with_its_line(tmp_path, text, end):
    (line,) = lines(TagJob, GIVEN, text, tmp_path / "job.toml")
    assert line.endswith(end)


def test_an_option_hides_the_line_of_the_file(tmp_path):
    (line,) = lines(TagJob, {**GIVEN, "workers": 0}, "workers = -1", tmp_path / "job.toml")
    assert line == "  --workers: 0 is less than 1"


def test_secrets_are_not_shown(tmp_path):
    (line,) = lines(TagJob, GIVEN, "storage_option = { key = 'hidden' }", tmp_path / "job.toml")
    assert "hidden" not in line


@pytest.mark.parametrize(("text", "line"), [("a = 1\nb = out/\n", 2), ("a = [1", 1), ("", None)])
def test_a_file_that_is_not_toml_is_shown_where_it_is_wrong(tmp_path, text, line):
    path = tmp_path / "job.toml"
    path.write_text(text)
    if line is None:
        assert read_job(TagJob, str(path), GIVEN).output == "o"
        return
    with pytest.raises(PipelineError) as caught:
        read_job(TagJob, str(path), GIVEN)
    assert caught.value.code == "job.unreadable"
    assert caught.value.values["reason"].startswith(f"line {line} is not TOML")


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOENT, 1),
        (errno.ENOTDIR, 1),
        (errno.EEXIST, 1),
        (errno.EACCES, 1),
        (errno.EROFS, 1),
        (errno.EIO, 3),
        (errno.ENOSPC, 3),
        (errno.ESTALE, 3),
    ],
)
def test_a_fault_that_lasts_is_not_to_be_tried_again(number, code):
    error = OSError(number, os.strerror(number))
    for name in ("input.not_readable", "output.not_readable", "output.not_writable", "storage.failed"):
        caused = PipelineError(name, path="p", reason="r")
        caused.__cause__ = error
        assert exit_code(caused) == exit_code(PipelineError(name, path="p", reason=error)) == code
    assert exit_code(PipelineError("output.busy", path="p", holder=error)) == 5


def test_an_error_inside_an_error_has_no_code_of_its_own():
    inner = PipelineError("output.not_writable", path="p", reason=OSError(errno.EIO, "Input/output error"))
    outer = str(PipelineError("model.not_loaded", path="m", reason=inner))
    assert outer.startswith("[model.not_loaded] cannot load m: cannot write p: input/output error.")
    assert "Errno" not in outer
    assert "output.not_writable" not in outer

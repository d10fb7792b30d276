"""New files of a folder: all or none."""

import pytest

from pipelines.errors import PipelineError
from pipelines.output import new_files
from pipelines.output.new_files import NewFiles


def write_and_fail(files):
    with files.all_or_none():
        for name in "abc":
            with files.opened(name) as file:
                file.write(b"x")
        raise ZeroDivisionError


def test_a_file_that_can_not_be_removed_does_not_keep_the_others(tmp_path, monkeypatch):
    remove = new_files.remove

    def failing(url):
        if url.endswith("/b"):
            raise PipelineError("storage.failed", reason="no permission")
        remove(url)

    monkeypatch.setattr(new_files, "remove", failing)
    with pytest.raises(ZeroDivisionError):
        write_and_fail(NewFiles(str(tmp_path / "out")))
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["b"]

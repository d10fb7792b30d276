"""The lock of the folder of checkpoints."""

import errno
import fcntl

import pytest

from spanmarker_core.errors import CoreError
from spanmarker_core.training.checkpoints import TrainingFolder


def test_one_run_at_a_time_holds_the_folder(tmp_path):
    with TrainingFolder(tmp_path / "bundle") as first:
        first.open({})
        with TrainingFolder(tmp_path / "bundle") as second, pytest.raises(CoreError, match=r"training.in_use"):
            second.open({})
    with TrainingFolder(tmp_path / "bundle") as third:
        third.open({})


@pytest.mark.parametrize(("number", "code"), [(errno.ENOLCK, None), (errno.EIO, r"training.folder_not_writable")])
def test_only_a_file_system_without_locks_is_used_without_one(tmp_path, monkeypatch, number, code):
    def flock(*_):
        raise OSError(number, "")

    monkeypatch.setattr(fcntl, "flock", flock)
    with TrainingFolder(tmp_path / "bundle") as folder:
        if code is None:
            assert folder.open({}) is None
        else:
            with pytest.raises(CoreError, match=code):
                folder.open({})

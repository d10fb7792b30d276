"""Files that are written below a folder, all or none: if writing fails, those that are there are removed."""

import contextlib
import json
import tempfile
from collections.abc import Iterator
from typing import IO

from pipelines.errors import PipelineError
from pipelines.storage import exists, in_bucket, join, make_folder, publish, remove, resolve, writing
from pipelines.storage.urls import is_local


class NewFiles:
    """New files of a folder.

    Args:
        url: path or URL of the folder, which need not exist.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._has_folders = False  # rather than objects with slashes in their names
        self._names = tempfile.SpooledTemporaryFile(1 << 20)  # noqa: SIM115 - closed with this object

    @contextlib.contextmanager
    def all_or_none(self) -> Iterator[None]:
        """Make the folder; if the block raises, remove the files that were written, and the folder if it is new.

        Raises:
            PipelineError: `output.not_writable`, `url.no_bucket`, `url.unusable`.
        """
        made = not exists(self._url)
        make_folder(self._url)
        fs, path = resolve(self._url)
        self._has_folders = is_local(fs) or not in_bucket(fs, path)
        try:
            yield
        except BaseException:
            self._names.seek(0)
            for line in reversed(self._names.readlines()):
                with contextlib.suppress(PipelineError, OSError):  # one that can't be removed leaves the others
                    self.remove(json.loads(line))
            if made and self._has_folders:
                with contextlib.suppress(OSError):
                    fs.rmdir(path)
            raise

    @contextlib.contextmanager
    def opened(self, name: str) -> Iterator[IO[bytes]]:
        """Open a file for writing; it appears when the block ends.

        Args:
            name: its name below the folder.

        Raises:
            PipelineError: `output.not_writable`.
        """
        self.add(name)
        with publish(url := join(self._url, name)) as file, writing(url):
            yield file

    def add(self, name: str) -> None:
        """Count a file that was written otherwise among the new ones.

        Args:
            name: its name below the folder.
        """
        self._names.write(json.dumps(name).encode() + b"\n")

    def remove(self, name: str) -> None:
        """Remove a file, and its folder if that is empty then.

        Args:
            name: its name below the folder; that of a folder ends in a slash.

        Raises:
            PipelineError: `output.not_writable`.
        """
        folder, _, short = name.rpartition("/")
        if short:
            with writing(url := join(self._url, name)):
                remove(url)
        if folder and self._has_folders:
            fs, path = resolve(join(self._url, folder))
            with contextlib.suppress(OSError):  # it isn't empty yet, or gone
                fs.rmdir(path)

"""Writes documents in a format to memory and reads them back."""

import io
from collections.abc import Iterable

import pytest

from spanmarker_core.formats.document import AnnotatedDocument
from spanmarker_core.formats.flatten import Kept
from spanmarker_core.formats.options import ReadOptions, Source, WriteOptions
from spanmarker_core.formats.registry import FORMATS, read_documents, write_documents


class Memory:
    """Files of one output, by name."""

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self.files = dict(files or {})

    def open(self, name: str) -> io.BytesIO:
        if name not in self.files:
            raise FileNotFoundError(name)
        return io.BytesIO(self.files[name])

    def create(self, name: str) -> io.BytesIO:
        files = self.files

        class File(io.BytesIO):
            def close(self) -> None:
                if not self.closed:
                    files[name] = self.getvalue()
                super().close()

        assert name not in files, "each file is written once"
        return File()

    def write(self, documents: Iterable[AnnotatedDocument], name: str, **options) -> Kept:
        form = FORMATS[name]
        if form.folder:
            return write_documents(documents, name, self.create, WriteOptions(**options))
        with self.create(f"data{form.endings[0]}") as file:
            return write_documents(documents, name, file, WriteOptions(**options))

    def read(self, name: str, **options) -> list[AnnotatedDocument]:
        paths = sorted(path for path in self.files if path.endswith(FORMATS[name].endings))
        sources = [Source(path, self.open) for path in paths]
        return [document for each in sources for document in read_documents(each, name, ReadOptions(**options))]


@pytest.fixture
def memory():
    return Memory()

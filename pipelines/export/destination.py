"""The files of an export. Each appears when it is complete; if the export fails, all are removed.

| | one part per shard | one part (`--one-file`) |
| --- | --- | --- |
| formats of one file | `DESTINATION/SHARD.jsonl` | the file `DESTINATION` |
| formats of several files | `DESTINATION/SHARD/…` | `DESTINATION/…` |

A folder also gets `_export.json`, which describes the export and states whether it is finished.
"""

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

from pipelines.errors import PipelineError
from pipelines.output.manifest import is_shard_name
from pipelines.output.new_files import NewFiles
from pipelines.output.overwrite import Ours, begins, never, refuse_inputs, refuse_overwrite
from pipelines.storage import (
    Listed,
    absolute,
    join,
    listing,
    local_kind,
    make_folder,
    open_input,
    publish,
    publish_bytes,
    resolve,
    translate_storage_errors,
    writing,
)
from pipelines.storage.urls import is_local
from spanmarker_core.formats.folders import Opener
from spanmarker_core.formats.registry import FORMATS, Format

RECORD = "_export.json"
_VERSION = 1

#: How a file that `spanmarker export` wrote begins.
_BEGINS: dict[str, Ours] = {
    "jsonl": begins(b'{"id": ', b', "text": ', b', "entities": ['),
    "sentences": begins(b'{"document_id": ', b', "sentence_id": ', b', "tokens": ['),
    "doccano": begins(b'{"id": ', b', "text": ', b', "label": ['),
    "prodigy": begins(b'{"text": ', b', "meta": {"id": ', b'"spans": ['),
    "label-studio": begins(b'[\n{"id": 1, "data": {"document_id": '),
    "gliner": begins(b'[\n{"tokenized_text": [', b'"ner": ['),
    "conll": begins(b"-DOCSTART-\tO\n\n"),
    "conllu": begins(b"# newdoc id = ", b"\n# sent_id = "),
    "spacy": begins(b"\x78\x9c"),  # zlib's
}
#: How the names of files in folders end.
_ENDINGS = {
    "brat": (".ann", ".txt", "annotation.conf"),
    "web-annotations": (".jsonld", ".txt"),
    "cas": (".xmi", "TypeSystem.xml"),
    "datasets": (".arrow", "dataset_info.json", "state.json"),
}
_OPTION = "--destination"


class Destination:
    """The place that an export is written to.

    Args:
        url: a path or URL.
        form: the format.
        one_file: whether everything is in one part.

    Attributes:
        url: the path or URL.
    """

    def __init__(self, url: str, form: Format, one_file: bool) -> None:
        self.url, self._form, self._one_file = absolute(url), form, one_file
        self._is_file = one_file and not form.folder
        self._new = NewFiles(self.url)

    def check(self, output: str, sources: Iterable[str], force: bool) -> None:
        """Check that nothing is replaced but a previous export, and that only if the user wants it.

        Args:
            output: the output folder that is exported.
            sources: files and folders that it was read from.
            force: whether a previous export may be replaced.

        Raises:
            PipelineError: `export.exists`, `output.is_input`, `output.would_replace`, `output.not_readable`,
                `url.unusable`.
        """
        for source in sources:
            if source == self.url or source.startswith(f"{self.url}/"):
                raise PipelineError("output.is_input", option=_OPTION, path=self.url, input=source)
        fs, path = resolve(self.url)
        there = local_kind(path)[0] if is_local(fs) and os.path.lexists(path) else None
        if self._is_file:
            try:
                refuse_overwrite(_OPTION, self.url, [output], _BEGINS[self._form.name] if force else never)
            except PipelineError as error:
                if error.code == "output.would_replace" and not force:
                    raise PipelineError("export.exists", path=self.url) from None
                raise
            if there == "directory":
                raise PipelineError("output.would_replace", option=_OPTION, path=self.url)
            return
        refuse_inputs(_OPTION, self.url, [RECORD], [output])
        if there not in (None, "directory"):
            raise PipelineError("output.would_replace", option=_OPTION, path=self.url)
        if next(self._entries(self.url), None) is None:
            return
        if not force:
            raise PipelineError("export.exists", path=self.url)
        ours = self._previous()
        if ours is None or not all(map(ours, self._files())):
            raise PipelineError("output.would_replace", option=_OPTION, path=self.url)

    @contextlib.contextmanager
    def replaced(self, record: dict[str, Any]) -> Iterator[None]:
        """Make room for the parts, which are written in the block; if it raises, remove what was written.

        Args:
            record: description of the export.

        Raises:
            PipelineError: `output.not_writable`, `url.no_bucket`, `url.unusable`.
        """
        if self._is_file:
            yield
            return
        with self._new.all_or_none():
            # First, so that what an interrupted export leaves is recognised.
            self._write_record({"finished": False, **record})
            for name in self._files():
                if name != RECORD:
                    self._new.remove(name)
            self._new.add(RECORD)
            yield

    def finish(self, record: dict[str, Any]) -> None:
        """Note in a folder that it is complete.

        Args:
            record: description of the export.

        Raises:
            PipelineError: `output.not_writable`.
        """
        if not self._is_file:
            self._write_record({"finished": True, **record})

    def part(self, shard: str | None, write: Callable[[IO[bytes] | Opener], None]) -> None:
        """Write a part.

        Args:
            shard: name of its shard; None for the only part.
            write: writes to a file or, if the format consists of several files, to an `Opener`.

        Raises:
            PipelineError: `output.not_writable`.
        """
        if self._form.folder:
            write(self._opener(shard))
        elif shard is None:
            with publish(self.url) as file, writing(self.url):
                write(file)
        else:
            with self._new.opened(f"{shard}{self._form.endings[0]}") as file:
                write(file)

    def _opener(self, shard: str | None) -> Opener:
        if shard is not None:
            make_folder(join(self.url, shard))
        return lambda name: self._new.opened(name if shard is None else f"{shard}/{name}")

    def _write_record(self, record: dict[str, Any]) -> None:
        values = {"export_version": _VERSION, "format": self._form.name, "one_file": self._one_file, **record}
        publish_bytes(join(self.url, RECORD), json.dumps(values, indent=1).encode() + b"\n")

    def _previous(self) -> Callable[[str], bool] | None:
        """Return a function that recognises the files of the export in the folder by their names; None if none is."""
        try:
            with open_input(join(self.url, RECORD)) as file:
                values = json.loads(file.read())
            form, one_file = FORMATS[values["format"]], bool(values["one_file"])
        except FileNotFoundError:
            return None
        except OSError as error:
            raise PipelineError("output.not_readable", path=self.url, reason=error) from error
        except (ValueError, KeyError, TypeError):
            return None

        def ours(name: str) -> bool:
            folder, _, short = name.rpartition("/")
            if name == RECORD or short.endswith(".scratch"):
                return True
            if not form.folder:
                return (
                    not folder
                    and short.endswith(form.endings[0])
                    and is_shard_name(short.removesuffix(form.endings[0]))
                )
            placed = not folder if one_file else is_shard_name(folder)
            return placed and (not short or short.endswith(_ENDINGS[form.name]))

        return ours

    def _files(self) -> Iterator[str]:
        """Yield the names below the folder; those of folders end in a slash, after the names in them."""
        for entry in self._entries(self.url):
            name = _name(entry)
            if name.endswith("/"):
                yield from (f"{name}{_name(each)}" for each in self._entries(join(self.url, name)))
            yield name

    def _entries(self, url: str) -> Iterator[Listed]:
        fs, path = resolve(url)
        with translate_storage_errors(url):
            yield from listing(fs, path)


def _name(entry: Listed) -> str:
    return entry.path.rpartition("/")[2] + ("/" if entry.kind == "directory" else "")

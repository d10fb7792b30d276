"""The folder of a report and its files."""

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from pipelines.errors import PipelineError
from pipelines.output.overwrite import Ours, begins, refuse_overwrites
from pipelines.report.predictions import PREDICTIONS
from pipelines.storage import exists, join, make_folder, names_in, publish_bytes, remove, resolve

#: Names of the reports, all of which may share a folder, and the other files of reports.
REPORTS = ("evaluation", "comparison", "representations")
_OTHER_FILES = (PREDICTIONS,)
#: Files that an error names.
_SHOWN = 5


def refuse_foreign(folder: str, name: str, inputs: Iterable[str], more: Mapping[str, Ours] | None = None) -> None:
    """Reject a folder that holds other files than reports, or in which the report would overwrite an input.

    A report among the files of a corpus would be read as a part of it.

    Args:
        folder: a path or URL.
        name: name of the report, as passed to `publish_files`.
        inputs: paths of the inputs of the report.
        more: other files of the report: name -> test whether a file is an earlier version of it.

    Raises:
        PipelineError: `output.is_input`, `output.would_replace`, `output.not_for_reports`.
    """
    title = name.capitalize().encode()
    files = {
        f"{name}.html": begins(b"<!doctype html>", b"<title>" + title),
        f"{name}.md": begins(b"# " + title + b"\n"),
        f"{name}.json": begins(b'{\n "format_version": '),
    }
    refuse_overwrites("--report", folder, {**files, **(more or {})}, inputs)
    ours = {f"{report}.{ending}" for report in REPORTS for ending in ("html", "md", "json")}
    others = (name for name in names_in(folder, "") if name not in ours and name not in _OTHER_FILES)
    if found := sorted(islice(others, _SHOWN)):
        raise PipelineError("output.not_for_reports", path=folder, files=", ".join(found))


@contextlib.contextmanager
def report_folder(folder: str) -> Iterator[None]:
    """Verify that the folder is writable before the work in the block starts.

    Existing files stay until the block replaces them. A folder created for a block that fails is removed.

    Args:
        folder: a path or URL.

    Raises:
        PipelineError: `output.not_writable`.
    """
    there = exists(folder)
    make_folder(folder)
    probe = join(folder, ".probe")
    publish_bytes(probe, b"")
    remove(probe)
    try:
        yield
    except BaseException:
        if not there:
            fs, path = resolve(folder)
            with contextlib.suppress(OSError):
                fs.rmdir(path)
        raise


def publish_files(folder: str, name: str, values: Mapping[str, Any], markdown: str, page: bytes) -> str:
    """Write a report as name.html, name.md and name.json, and return the path of its page.

    Bytes of file names that are not UTF-8 are escaped, as in tables.

    Args:
        folder: a path or URL.
        name: name of the report.
        values: values of the report, written as JSON.
        markdown: the report as Markdown.
        page: the report as HTML.
    """
    path = join(folder, f"{name}.html")
    publish_bytes(path, page)
    publish_bytes(join(folder, f"{name}.md"), markdown.encode("utf-8", "backslashreplace"))
    text = json.dumps(values, ensure_ascii=False, indent=1)
    publish_bytes(join(folder, f"{name}.json"), text.encode("utf-8", "backslashreplace") + b"\n")
    return path

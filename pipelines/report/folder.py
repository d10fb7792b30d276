"""The folder of a report, and the files in it."""

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pipelines.output.overwrite import Ours, begins, refuse_overwrites
from pipelines.storage import exists, join, make_folder, publish_bytes, remove, resolve


def refuse_foreign(folder: str, name: str, inputs: Iterable[str], more: Mapping[str, Ours] | None = None) -> None:
    """Refuse a folder in which the files of a report would replace what is none, or an input.

    Args:
        folder: a path or URL.
        name: of the report, as in `publish_files`.
        inputs: paths of what the report is made from.
        more: other files of the report; see `guard.refuse_overwrites`.

    Raises:
        PipelineError: as `guard.refuse_overwrite`.
    """
    title = name.capitalize().encode()
    files = {
        f"{name}.html": begins(b"<!doctype html>", b"<title>" + title),
        f"{name}.md": begins(b"# " + title + b"\n"),
        f"{name}.json": begins(b'{\n "format_version": '),
    }
    refuse_overwrites("--report", folder, {**files, **(more or {})}, inputs)


@contextlib.contextmanager
def report_folder(folder: str) -> Iterator[None]:
    """Find out that the folder can be written before work is spent on it, which is then the block.

    What was there stays until the block replaces it. A folder that was made for a block that fails goes again.

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

    Bytes in the names of files that are no UTF-8 are spelled out, as in tables.
    """
    path = join(folder, f"{name}.html")
    publish_bytes(path, page)
    publish_bytes(join(folder, f"{name}.md"), markdown.encode("utf-8", "backslashreplace"))
    text = json.dumps(values, ensure_ascii=False, indent=1)
    publish_bytes(join(folder, f"{name}.json"), text.encode("utf-8", "backslashreplace") + b"\n")
    return path

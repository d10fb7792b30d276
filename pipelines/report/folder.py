"""The folder of a report, and the files in it."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.storage import exists, join, make_folder, publish_bytes, remove, resolve


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

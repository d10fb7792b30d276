"""Writes an evaluation: evaluation.json and evaluation.md in a folder."""

import contextlib
import json
from collections.abc import Iterator, Mapping

from pipelines.storage import exists, join, make_folder, publish_bytes, remove, resolve
from spanmarker_core.evaluation.metrics import EvaluationResult
from spanmarker_core.evaluation.report import to_json, to_markdown


@contextlib.contextmanager
def report_folder(folder: str) -> Iterator[None]:
    """Find out that the folder can be written before an evaluation is spent on it, which is then the block.

    What was there stays until `publish_report` replaces it. A folder that was made for a block that fails goes again.

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


def publish_report(folder: str, result: EvaluationResult, facts: Mapping[str, object]) -> str:
    """Write both files and return the path of the page."""
    text = json.dumps(to_json(result, facts), ensure_ascii=False, indent=2)
    publish_bytes(join(folder, "evaluation.json"), text.encode() + b"\n")
    page = join(folder, "evaluation.md")
    publish_bytes(page, to_markdown(result, facts).encode())
    return page

"""Writes an evaluation: evaluation.json and evaluation.md in a folder."""

import json
from collections.abc import Mapping

from pipelines.storage import join, make_folder, publish_bytes
from spanmarker_core.evaluation.metrics import EvaluationResult
from spanmarker_core.evaluation.report import to_json, to_markdown


def prepare_report(folder: str) -> None:
    """Find out that the folder can be written before an evaluation is spent on it.

    Raises:
        PipelineError: `output.not_writable`.
    """
    make_folder(folder)
    publish_bytes(join(folder, "evaluation.json"), b"")


def publish_report(folder: str, result: EvaluationResult, facts: Mapping[str, object]) -> str:
    """Write both files and return the path of the page."""
    text = json.dumps(to_json(result, facts), ensure_ascii=False, indent=2)
    publish_bytes(join(folder, "evaluation.json"), text.encode() + b"\n")
    page = join(folder, "evaluation.md")
    publish_bytes(page, to_markdown(result, facts).encode())
    return page

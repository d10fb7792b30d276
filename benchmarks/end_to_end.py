"""Time of `spanmarker tag` on a corpus, and the share of it spent outside the model."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.contestants import Bundle

DEMO = Path(__file__).resolve().parents[1] / "infra" / "demo" / "web-pages.parquet"

#: Stages of the run report in which the model computes.
MODEL_STAGES = ("model", "tag")


def tag_corpus(bundle: Bundle, corpus: Path, output: Path, run: dict[str, Any]) -> dict[str, Any]:
    """Tag a corpus with the command and return figures from its report.

    Args:
        bundle: the model.
        corpus: path of the input.
        output: output folder.
        run: `threads`, `device` and `dtype`.

    Returns:
        `seconds` of the whole command, `run_seconds` of the run inside it (without the start of the interpreter),
        `model_seconds`, `outside` (the share of `run_seconds` spent outside the model), and the counts of the report.
    """
    shutil.rmtree(output, ignore_errors=True)
    command = [sys.executable, "-c", "from pipelines.cli import main; main()", "tag"]
    command += ["--input", str(corpus), "--output", str(output), "--model", str(bundle.path)]
    command += ["--threads", str(run["threads"]), "--device", run["device"], "--dtype", run["dtype"]]
    command += ["--gate", bundle.gate]
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - began
    report = json.loads((output / "report.json").read_text(encoding="utf-8"))
    stages = report["output"]["seconds_by_stage"]
    model = stages[next(stage for stage in MODEL_STAGES if stage in stages)]
    in_run = report["this_run"]["seconds"]
    return {
        "name": bundle.name,
        "corpus": corpus.name,
        "seconds": seconds,
        "run_seconds": in_run,
        "model_seconds": model,
        "outside": 1 - model / in_run,
        "stages": stages,
        "counts": report["output"]["counts"],
        "words_per_second": report["this_run"]["words_per_second"],
        "worker_peak_rss_bytes": report["output"]["worker_peak_rss_bytes"],
    }

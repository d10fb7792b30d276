"""Cost of the pipeline itself: growth with the corpus, overhead of each engine per shard, gain from a second worker.

    python -m benchmarks.scale --output DIR [--parts growth engines workers] [--rounds 3]

`growth` and `engines` use a tiny model whose gate rejects all spans, so that they measure reading, splitting, packing,
checking, writing and committing. `workers` uses the bundled model with one thread per worker. Alternatives are
interleaved within each round. Run this on an otherwise idle machine; results go to DIR/scale.json and to the screen.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from spanmarker_core.default_model import bundled_model_path
from tests.support.tiny import GATE, tiny_bundle

DEMO = Path(__file__).resolve().parents[1] / "infra" / "demo"
ENGINES = ("local", "dask", "beam")
TIMES = (1, 10, 100)
#: Numbers of shards of the two runs whose difference gives the cost per shard.
FEW, MANY = 8, 208


def demo_documents() -> Iterator[dict[str, str]]:
    """Yield the documents of the sample corpus."""
    for path in sorted(DEMO.glob("*.parquet")):
        yield from pq.read_table(path, columns=["id", "text"]).to_pylist()
    for line in (DEMO / "speeches.jsonl").read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def write_corpus(path: Path, times: int) -> Path:
    """Write several copies of the sample corpus, with distinct ids, and return the path.

    Args:
        path: path of the file.
        times: number of copies.
    """
    documents = list(demo_documents())
    with open(path, "w", encoding="utf-8") as file:
        for copy in range(times):
            for document in documents:
                record = {"id": f"{copy}/{document['id']}", "text": document["text"]}
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
    return path


def write_lines(path: Path, count: int) -> Path:
    """Write a corpus of short documents, each of which becomes a shard, and return the path.

    Args:
        path: path of the file.
        count: number of documents.
    """
    text = "Barack Obama was in Paris. He flew to New York."
    with open(path, "w", encoding="utf-8") as file:
        for number in range(count):
            file.write(json.dumps({"id": f"{number:06d}", "text": text}) + "\n")
    return path


def idle_model(folder: Path) -> Path:
    """Write a tiny model whose gate rejects all spans, and return its folder.

    Args:
        folder: parent folder.
    """
    shutil.rmtree(folder / "tiny", ignore_errors=True)
    return tiny_bundle(folder / "tiny", gate={**GATE, "trained": "joint", "threshold": 1.0})


def tag(corpus: Path, output: Path, model: Path, engine: str, workers: int, shard_bytes: int) -> dict[str, Any]:
    """Tag a corpus from scratch with the command; return figures from its report, and `wall`, the total seconds.

    Args:
        corpus: path of the input.
        output: output folder.
        model: folder of the bundle.
        engine: name of the engine.
        workers: number of workers.
        shard_bytes: approximate size of a shard, in bytes of text.
    """
    shutil.rmtree(output, ignore_errors=True)
    command = [sys.executable, "-m", "pipelines.cli", "tag", "--input", str(corpus), "--output", str(output)]
    command += ["--model", str(model), "--engine", engine, "--workers", str(workers), "--threads", "1"]
    command += ["--max-shard-bytes", str(shard_bytes)]
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    wall = time.perf_counter() - began
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    report = json.loads((output / "report.json").read_text(encoding="utf-8"))
    run, counts = report["this_run"], report["output"]["counts"]
    return {
        "wall": wall,
        "seconds": run["seconds"],
        "shards": run["shards_run"],
        "documents": counts["documents"],
        "words": counts["words"],
        "words_per_second": run["words_per_second"],
        "driver_peak_mb": run["parent_peak_rss_bytes"] / 1e6,
        "worker_peak_mb": report["output"]["worker_peak_rss_bytes"] / 1e6,
    }


def growth(folder: Path, rounds: int, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Tag 1, 10 and 100 copies of the sample corpus with the tiny model, once each.

    Args:
        folder: working folder.
        rounds: unused.
        say: called with lines about progress.
    """
    model = idle_model(folder)
    found = []
    for times in TIMES:
        corpus = write_corpus(folder / f"{times}x.jsonl", times)
        found.append({"times": times, **tag(corpus, folder / "out", model, "local", 1, 1 << 18)})
        say(
            f"{times:>4}x: {found[-1]['documents']:,} documents, {found[-1]['seconds']:.1f} s, "
            f"worker {found[-1]['worker_peak_mb']:.0f} MB, driver {found[-1]['driver_peak_mb']:.0f} MB"
        )
    return found


def engines(folder: Path, rounds: int, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Tag few and many tiny shards with each engine and one worker; return fixed cost and cost per shard, in seconds.

    Args:
        folder: working folder.
        rounds: number of rounds.
        say: called with lines about progress.
    """
    model = idle_model(folder)
    line = write_lines(folder / "one.jsonl", 1).stat().st_size
    corpora = {count: write_lines(folder / f"{count}.jsonl", count) for count in (FEW, MANY)}
    walls: dict[tuple[str, int], list[float]] = {}
    for _ in range(rounds):
        for engine in ENGINES:
            for count, corpus in corpora.items():
                result = tag(corpus, folder / "out", model, engine, 1, line)
                if result["shards"] != count:
                    raise RuntimeError(f"{result['shards']} shards, not {count}")
                walls.setdefault((engine, count), []).append(result["wall"])
    found = []
    for engine in ENGINES:
        pairs = list(zip(walls[engine, FEW], walls[engine, MANY], strict=True))
        shard = [(many - few) / (MANY - FEW) for few, many in pairs]
        fixed = [few - FEW * each for (few, _), each in zip(pairs, shard, strict=True)]
        found.append({"engine": engine, "shard_seconds": shard, "fixed_seconds": fixed})
        say(f"{engine}: {1000 * statistics.median(shard):.1f} ms a shard, {statistics.median(fixed):.1f} s before")
    return found


def workers(folder: Path, rounds: int, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Tag the sample corpus with the bundled model, with one and with two workers of one thread each.

    Args:
        folder: working folder.
        rounds: number of rounds.
        say: called with lines about progress.
    """
    found = []
    corpus = write_corpus(folder / "1x.jsonl", 1)
    for engine in ("local", "dask"):
        ratios, rates = [], []
        for _ in range(rounds):
            one, two = (
                tag(corpus, folder / "out", bundled_model_path(), engine, count, 1 << 13)["words_per_second"]
                for count in (1, 2)
            )
            ratios.append(two / one)
            rates.append((one, two))
        found.append({"engine": engine, "words_per_second": rates, "ratios": ratios})
        say(f"{engine}: two workers {statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f}) times one")
    return found


def main() -> None:
    """Run from the command line."""
    parts = {"growth": growth, "engines": engines, "workers": workers}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--parts", nargs="+", choices=parts, default=list(parts))
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    path = arguments.output / "scale.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    for name in arguments.parts:
        print(name, flush=True)
        results[name] = parts[name](arguments.output, arguments.rounds, lambda line: print("  " + line, flush=True))
        path.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()

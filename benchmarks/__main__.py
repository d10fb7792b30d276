"""Compare the speed of this library with its peers: `make bench`, or `python -m benchmarks --help`.

python -m benchmarks model    train the benchmark's model if it is missing
python -m benchmarks run      run all measurements (trains the model first if none is given)
python -m benchmarks table    print the tables of an earlier run
"""

import argparse
import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.contestants import Bundle, config_of, entries, our_bundles
from benchmarks.end_to_end import DEMO, tag_corpus
from benchmarks.export import ExportError
from benchmarks.growth import grow
from benchmarks.machine import machine
from benchmarks.model import bench_model
from benchmarks.predict import predict
from benchmarks.process import WorkerFailed
from benchmarks.rounds import Disagreement, Pool, measure
from benchmarks.table import markdown
from benchmarks.workloads import workloads
from spanmarker_core.bundle.config import gate_threshold
from spanmarker_core.bundle.reader import read_info
from spanmarker_core.errors import CodedError
from tests.parity.span_marker_environment import python_with_span_marker

PARTS = ("workloads", "growth", "end-to-end")


class Unusable(Exception):
    """A file named on the command line cannot be used; the message is the reason."""


def main() -> None:
    """Parse the command line and execute the subcommand."""
    arguments = parser().parse_args()
    try:
        if arguments.do == "model":
            print(bench_model(arguments.output / "model", _say, arguments.train_sentences))
        elif arguments.do == "table":
            print(markdown(_results(arguments.output / "results.json")))
        else:
            run(arguments)
    except (CodedError, ExportError, Disagreement, Unusable, WorkerFailed) as error:
        sys.exit(str(error))


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    found = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = found.add_argument
    add("do", choices=("run", "model", "table"), nargs="?", default="run")
    add("--output", type=Path, default=Path("bench-out"), help="folder for results, and for the model")
    add("--model", type=Path, help="the bundle that all contestants run; else the benchmark's own")
    add("--bundle", type=Bundle.parse, action="append", default=[], metavar="NAME=PATH[:GATE]", help="one more of ours")
    add("--python", type=Path, help="an interpreter that has span_marker 1.8.1; else .venv-span-marker is made")
    add("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    add("--workload", action="append", help="only workloads with this in their name")
    add("--sentences", type=positive, default=240, help="sentences of each sentence workload")
    add("--document-sentences", type=positive, default=120, help="sentences of each document workload, about")
    add("--growth-words", type=positive, default=2000, help="words of each point of growth, about")
    add("--rounds", type=positive, default=5)
    add("--threads", type=positive, default=2)
    add("--device", default="cpu", help="cpu, cuda, cuda:1, ...")
    add("--dtype", default="float32", help="float32, or bfloat16 on a GPU: in ours as it offers it, else by autocast")
    add("--window", type=positive, default=256, help="tokens of a window, for sentences")
    add("--document-window", type=positive, default=512, help="the same with context")
    add("--digitalgov", type=Path, default=DEMO, help="corpus for end to end; else the sample's web pages")
    add("--train-sentences", type=positive, help="for a quick test: train on the first N sentences of each set")
    return found


def positive(text: str) -> int:
    """Parse an integer of 1 or more.

    Args:
        text: the argument.

    Raises:
        argparse.ArgumentTypeError: the text is not such a number.
    """
    with suppress(ValueError):
        if (value := int(text)) >= 1:
            return value
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")


def check(arguments: argparse.Namespace) -> None:
    """Validate the inputs before a run of several hours starts.

    Args:
        arguments: the parsed command line.

    Raises:
        CoreError: a bundle is invalid, or lacks the requested gate.
        Unusable: another file is invalid.
    """
    named = [] if arguments.model is None else [Bundle("", arguments.model, "auto")]
    for bundle in [*named, *arguments.bundle]:
        gate_threshold(read_info(bundle.path).config, bundle.gate, bundle.path)
    if arguments.python is not None and not os.access(arguments.python, os.X_OK):
        raise Unusable(f"--python {arguments.python} is not a program that can be run.")
    if "end-to-end" in arguments.parts and not arguments.digitalgov.exists():
        raise Unusable(f"--digitalgov {arguments.digitalgov} does not exist.")


def run(arguments: argparse.Namespace) -> None:
    """Run all requested measurements. Results are written after each step, so that an interruption loses little.

    Args:
        arguments: the parsed command line.
    """
    check(arguments)
    output = arguments.output
    work = output / "work"
    work.mkdir(parents=True, exist_ok=True)
    model = arguments.model or bench_model(output / "model", _say, arguments.train_sentences)
    peer_python = arguments.python or python_with_span_marker()
    bundles = our_bundles(model, arguments.bundle)
    options = {"threads": arguments.threads, "device": arguments.device, "dtype": arguments.dtype}
    sizes = {"sentence": arguments.window, "document": arguments.document_window}
    results: dict[str, Any] = {
        "machine": machine(arguments.device),
        "options": {**options, "rounds": arguments.rounds},
        "model": _facts(model),
        "workloads": [],
    }
    pool = Pool(Path(sys.executable), peer_python)
    checkpoint = None
    try:
        if "workloads" in arguments.parts:
            for workload in workloads(model, sizes, arguments.sentences, arguments.document_sentences):
                if arguments.workload and not any(part in workload.name for part in arguments.workload):
                    continue
                _say(f"{workload.name}: {len(workload.sentences)} sentences")
                taking_part = entries(bundles, workload.context, workload.max_tokens, work, options)
                if taking_part[0].options["path"] != checkpoint:  # other windows need other processes
                    pool.close()
                    checkpoint = taking_part[0].options["path"]
                labels = set(config_of(model)["labels"])
                found = measure(workload, taking_part, labels, pool, work / "workload.json", arguments.rounds, _say)
                for entry in taking_part:
                    result = found["entries"][entry.name]
                    result["predicted"] = predict(workload, entry, model, result["macs"])
                    result["floor"] = entry.floor
                results["workloads"].append(found)
                _write(output, results)
        if "growth" in arguments.parts:
            _say("growth")
            pool.close()
            results["growth"] = grow(bundles, sizes, arguments.growth_words, work, options, pool, _say)
            _write(output, results)
    finally:
        pool.close()
    if "end-to-end" in arguments.parts:
        _say(f"end to end: {arguments.digitalgov.name}")
        results["end_to_end"] = [tag_corpus(b, arguments.digitalgov, work / "tagged", options) for b in bundles]
        _write(output, results)
    print(markdown(results))


def _results(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Unusable(f"{path} does not exist: name the --output of an earlier run.") from None
    except (OSError, ValueError) as error:
        raise Unusable(f"{path} can't be read: {error}") from error


def _facts(model: Path) -> dict[str, Any]:
    config = config_of(model)
    return {
        "layers": config["encoder"]["num_hidden_layers"],
        "width": config["encoder"]["hidden_size"],
        "labels": len(config["labels"]),
        "entity_max_length": config["entity_max_length"],
    }


def _write(output: Path, results: dict[str, Any]) -> None:
    (output / "results.json").write_text(json.dumps(results, indent=1), encoding="utf-8")
    (output / "results.md").write_text(markdown(results), encoding="utf-8")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

"""The contestants: an entry is a worker process with the settings for a workload."""

import argparse
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.export import export_encoder, export_span_marker, with_limits
from spanmarker_core.bundle.reader import CONFIG
from spanmarker_core.windows.packer import CONTEXT_POLICIES

PEER = "span_marker, batches of 4"
EXACT = "ours, exact"
FLOOR = "text only"
ONCE = "text only, each token once"


@dataclass(frozen=True)
class Bundle:
    """A bundle of this library that takes part in the benchmark.

    Attributes:
        name: name in the results.
        path: folder of the bundle.
        gate: "off", "on" or "auto", the `gate` argument of `spanmarker_core.load`.
    """

    name: str
    path: Path
    gate: str

    @classmethod
    def parse(cls, text: str) -> "Bundle":
        """Parse NAME=PATH or NAME=PATH:GATE.

        Args:
            text: the argument.

        >>> Bundle.parse("late=out/late:on").gate
        'on'

        Raises:
            argparse.ArgumentTypeError: the text has another form.
        """
        name, equals, rest = text.partition("=")
        if not (name and equals and rest):
            raise argparse.ArgumentTypeError(f"{text!r} is not NAME=PATH or NAME=PATH:GATE")
        path, colon, gate = rest.rpartition(":")
        if colon and gate in ("on", "off", "auto"):
            return cls(name, Path(path), gate)
        return cls(name, Path(rest), "auto")


@dataclass(frozen=True)
class Entry:
    """A row of the results.

    Attributes:
        name: name in the results.
        module: name of a module in `workers/`.
        options: options of the worker process; entries with equal module and options share a process.
        settings: settings for running the workload.
        floor: name of the text-only entry for comparison; None for text-only entries.
        model: form of the cost model that predicts the entry; None for no prediction.
    """

    name: str
    module: str
    options: dict[str, Any]
    settings: dict[str, Any] = field(default_factory=dict)
    floor: str | None = FLOOR
    model: str | None = None

    @property
    def process(self) -> tuple[str, str]:
        """Return the identity of the required process."""
        return self.module, json.dumps(self.options, sort_keys=True)


def config_of(bundle: Path) -> dict[str, Any]:
    """Return the stored config of a bundle.

    Args:
        bundle: folder of the bundle.
    """
    return json.loads((bundle / CONFIG).read_text(encoding="utf-8"))


def our_bundles(model: Path, extra: list[Bundle]) -> list[Bundle]:
    """Return the model without its gate, the model with its gate if it has one, and the other bundles.

    Args:
        model: folder of the benchmark's model.
        extra: further bundles.
    """
    bundles = [Bundle(EXACT, model, "off")]
    if config_of(model).get("gate"):
        bundles.append(Bundle("ours, gated", model, "on"))
    return bundles + extra


def entries(bundles: list[Bundle], context: str, max_tokens: int, work: Path, run: dict[str, Any]) -> list[Entry]:
    """Return the entries of a workload, peers first.

    Args:
        bundles: bundles of this library; the first is the checkpoint that is exported for the peers.
        context: context of the workload.
        max_tokens: maximum tokens per window; all contestants use the checkpoint with this limit.
        work: folder for the exported checkpoints; existing ones are reused.
        run: `threads`, `device` and `dtype`.
    """
    model = limited(bundles[0].path, work, max_tokens=max_tokens)
    peer_options = {**run, "path": str(_made(export_span_marker, model, work / f"{model.name}-span_marker"))}
    encoder = {**run, "path": str(_made(export_encoder, model, work / f"{model.name}-encoder"))}
    found = [
        Entry(PEER, "span_marker_peer", peer_options, {"context": context, "batch_size": 4}, model="padded"),
        Entry("span_marker, best batches", "span_marker_peer", peer_options, {"context": context}, model="padded"),
    ]
    policies = ["sentence"] if context == "sentence" else [p for p in ("document", "block") if p in CONTEXT_POLICIES]
    for bundle in bundles:
        path = limited(bundle.path, work, max_tokens=max_tokens)
        found += [
            Entry(
                bundle.name if policy == context else f"{bundle.name}, {policy} context",
                "ours",
                {**run, "path": str(path), "gate": bundle.gate},
                {"context": policy},
                floor=FLOOR if policy == context else ONCE,
                model=policy,
            )
            for policy in policies
        ]
    found.append(Entry(FLOOR, "text_only", encoder, {"tokens": "windows"}, floor=None, model="text"))
    if context == "document":
        found.append(Entry(ONCE, "text_only", encoder, {"tokens": "once"}, floor=None, model="once"))
    labels = 2 * len(config_of(bundles[0].path)["labels"]) - 1  # B- and I- for each label, and O
    pipeline = {**encoder, "labels": labels}
    floor = FLOOR if context == "sentence" else ONCE
    found.append(Entry("transformers' pipeline", "token_classification", pipeline, floor=floor, model=None))
    return found


def limited(bundle: Path, work: Path, **limits: int) -> Path:
    """Return a copy of a bundle with other limits; it is made in `work` if missing.

    Args:
        bundle: folder of the bundle.
        work: folder for the copy.
        limits: values of `max_tokens` or `entity_max_length`.
    """
    suffix = "-".join(f"{name}-{value}" for name, value in sorted(limits.items()))
    output = work / f"{bundle.name}-{suffix}"
    if not (output / "digests.json").exists():
        with_limits(bundle, output, **limits)
    return output


def _made(export: Any, bundle: Path, output: Path) -> Path:
    """Export a bundle even if the folder exists: exporting is fast, and the folder may belong to another bundle."""
    return export(bundle, output)

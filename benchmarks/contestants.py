"""Who takes part: an entry is a worker process with the settings that it runs a workload under."""

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
    """A bundle of ours that takes part.

    Attributes:
        name: how results call it.
        path: its folder.
        gate: "off", "on" or "auto", as `load` takes it.
    """

    name: str
    path: Path
    gate: str

    @classmethod
    def parse(cls, text: str) -> "Bundle":
        """Read NAME=PATH or NAME=PATH:GATE.

        >>> Bundle.parse("late=out/late:on").gate
        'on'

        Raises:
            argparse.ArgumentTypeError: it is neither.
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
    """One line of the results.

    Attributes:
        name: what it is called.
        module: file in `workers/`.
        options: what its process is started with; entries of equal module and options share it.
        settings: how it runs a workload.
        floor: name of the text-only entry that it is compared with; None for those themselves.
        model: what the cost model predicts it with; None: nothing.
    """

    name: str
    module: str
    options: dict[str, Any]
    settings: dict[str, Any] = field(default_factory=dict)
    floor: str | None = FLOOR
    model: str | None = None

    @property
    def process(self) -> tuple[str, str]:
        """Identity of the process it needs."""
        return self.module, json.dumps(self.options, sort_keys=True)


def config_of(bundle: Path) -> dict[str, Any]:
    """Read a bundle's config as it is stored."""
    return json.loads((bundle / CONFIG).read_text(encoding="utf-8"))


def our_bundles(model: Path, extra: list[Bundle]) -> list[Bundle]:
    """The model without and, where it has one, with its gate; then the others."""
    bundles = [Bundle(EXACT, model, "off")]
    if config_of(model).get("gate"):
        bundles.append(Bundle("ours, gated", model, "on"))
    return bundles + extra


def entries(bundles: list[Bundle], context: str, max_tokens: int, work: Path, run: dict[str, Any]) -> list[Entry]:
    """List the entries of a workload, the peers first.

    Args:
        bundles: ours; the first is the checkpoint that all others are made from.
        context: the workload's.
        max_tokens: tokens of a window; every contestant gets the checkpoint with this limit.
        work: folder for the checkpoints in the contestants' formats; what is there already is used.
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
    labels = 2 * len(config_of(bundles[0].path)["labels"]) - 1  # B- and I- of each, and O
    pipeline = {**encoder, "labels": labels}
    floor = FLOOR if context == "sentence" else ONCE
    found.append(Entry("transformers' pipeline", "token_classification", pipeline, floor=floor, model=None))
    return found


def limited(bundle: Path, work: Path, **limits: int) -> Path:
    """Return a copy of a bundle in `work` with other limits, made if it isn't there."""
    suffix = "-".join(f"{name}-{value}" for name, value in sorted(limits.items()))
    output = work / f"{bundle.name}-{suffix}"
    if not (output / "digests.json").exists():
        with_limits(bundle, output, **limits)
    return output


def _made(export: Any, bundle: Path, output: Path) -> Path:
    """Export afresh: cheap, and never another bundle's."""
    return export(bundle, output)

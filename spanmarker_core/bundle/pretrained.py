"""Reading of untrusted folders in transformers' layout (an encoder, or a checkpoint of `span_marker`).

Nothing is downloaded, no code of the folder is run, and its files can't refer to files outside it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, pre_tokenizers
from torch import Tensor
from transformers import AutoConfig, AutoTokenizer, PretrainedConfig, PreTrainedTokenizerFast
from transformers.utils import logging

from spanmarker_core.bundle.config_checks import without_code
from spanmarker_core.bundle.files import POINTER_PROBLEM, is_pointer
from spanmarker_core.errors import CoreError, UnusableError, plain, wrap_errors

#: Words that pre-tokenizers cut into several pieces.
_SAMPLE_WORDS = ("Ada", "don't", "3.5", "x-ray")


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file.

    Args:
        path: the file.

    Raises:
        UnusableError: it can't be read or is not a JSON object.
    """
    try:
        if is_pointer(path):
            raise UnusableError(f"cannot read {path.name}: {POINTER_PROBLEM}")
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UnusableError(f"cannot read {path.name} ({plain(error)})") from error
    if not isinstance(values, dict):
        raise UnusableError(f"{path.name} is not a JSON object")
    return values


def weight_files(folder: Path, name: str) -> list[Path]:
    """Return the weight files of a folder: those that an index lists, or a single file; empty if any is missing.

    Args:
        folder: the folder.
        name: name of the single file, such as "model.safetensors"; the index is `{name}.index.json`.

    Raises:
        UnusableError: the index is invalid or names a file outside the folder, or a file is a pointer of Git LFS.
    """
    index = folder / f"{name}.index.json"
    names = {name}
    if index.is_file():
        where = read_json(index).get("weight_map")
        if not isinstance(where, dict) or not all(isinstance(file, str) for file in where.values()):
            raise UnusableError(f"{index.name} has no weight_map that maps weights to files")
        names = set(where.values())
        for file in names:
            if Path(file).name != file:
                raise UnusableError(f"{index.name} names the file {file!r}, which is not in this folder")
    files = [folder / file for file in sorted(names)]
    if not all(file.is_file() for file in files):
        return []
    if pointer := next(filter(is_pointer, files), None):
        raise UnusableError(f"cannot read {pointer.name}: {POINTER_PROBLEM}")
    return files


def encoder_config(values: Mapping[str, Any]) -> PretrainedConfig:
    """Return the transformers config of an encoder, ignoring keys that could select code.

    Args:
        values: content of its config.json.

    Raises:
        UnusableError: transformers rejects it.
    """
    values = without_code(values)
    model_type = values.pop("model_type", None)
    with wrap_errors(f"cannot use the encoder's config (model_type {model_type!r})"):
        return AutoConfig.for_model(model_type, **values)


def read_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """Return a folder's tokenizer.

    transformers silently uses an empty vocabulary if its files are missing, so their existence is checked.

    Args:
        folder: the folder.

    Raises:
        UnusableError: it can't be read, or its files are missing.
        CoreError: `encoder.no_fast_tokenizer`.
    """
    with quiet_transformers(), wrap_errors("cannot read its tokenizer"):
        # RoBERTa's vocabulary marks words by the space before them, which a list of words doesn't have.
        wrapped = AutoTokenizer.from_pretrained(
            folder, add_prefix_space=True, trust_remote_code=False, local_files_only=True
        )
    if not wrapped.is_fast:
        raise CoreError("encoder.no_fast_tokenizer", path=folder)
    names = dict(wrapped.vocab_files_names)
    whole = names.pop("tokenizer_file", "tokenizer.json")
    if not (folder / whole).is_file() and not (names and all((folder / name).is_file() for name in names.values())):
        expected = " and ".join(names.values())
        raise UnusableError(f"it has no {whole}" + (f" and no {expected}" if expected else ""))
    return wrapped


def put_spaces_before_words(tokenizer: Tokenizer) -> None:
    """Make a byte-level tokenizer treat each word of a list like a word after a space.

    >>> tokenizer.encode(["Ada"], is_pretokenized=True).tokens  # doctest: +SKIP
    ['ĠAda']

    Args:
        tokenizer: the tokenizer, changed in place; others than byte-level ones stay as they are.

    Raises:
        UnusableError: the tokenizer can't be changed in this way.
    """

    def read(words: Sequence[str | list[str]]) -> list[list[int]]:
        return [
            tokenizer.encode(word, is_pretokenized=isinstance(word, list), add_special_tokens=False).ids
            for word in words
        ]

    after_spaces, listed = read([f" {word}" for word in _SAMPLE_WORDS]), [[word] for word in _SAMPLE_WORDS]
    byte_level = [
        part
        for part in _parts(tokenizer.pre_tokenizer)
        if isinstance(part, pre_tokenizers.ByteLevel) and not part.add_prefix_space
    ]
    if not byte_level or read(listed) == after_spaces:
        return
    for part in byte_level:
        part.add_prefix_space = True
    if read(listed) != after_spaces:
        raise UnusableError("its byte-level tokenizer cannot treat the words of a list like words after a space")


def _parts(pre_tokenizer: pre_tokenizers.PreTokenizer | None) -> Iterator[pre_tokenizers.PreTokenizer]:
    if isinstance(pre_tokenizer, pre_tokenizers.Sequence):
        for part in pre_tokenizer:  # type: ignore[attr-defined]  # by __getitem__
            yield from _parts(part)
    elif pre_tokenizer is not None:
        yield pre_tokenizer


def not_finite(weights: Mapping[str, Tensor]) -> tuple[str, int] | None:
    """Return (name, number of values) for the first weight with NaN or infinity; None if all weights are finite.

    Args:
        weights: tensors by name.
    """
    for name, weight in weights.items():
        finite = torch.isfinite(weight)
        if not finite.all():
            return name, int((~finite).sum())
    return None


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silence transformers' progress bars, tables and warnings; restore the settings on exit."""
    verbosity, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bar:
            logging.enable_progress_bar()

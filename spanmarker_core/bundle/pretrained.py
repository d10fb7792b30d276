"""Folders in transformers' layout (an encoder, or a checkpoint of `span_marker`), read with nothing trusted.

Nothing is fetched, no code of the folder is run, and no file outside it is named by one inside.
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
from spanmarker_core.errors import CoreError, UnusableError, wrap_errors

#: Words that pre-tokenizers cut into several pieces.
_SAMPLE_WORDS = ("Ada", "don't", "3.5", "x-ray")


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file.

    Raises:
        UnusableError: with the reason.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UnusableError(f"{path.name} can't be read ({error})") from error
    if not isinstance(values, dict):
        raise UnusableError(f"{path.name} is not a JSON object")
    return values


def weight_files(folder: Path, name: str) -> list[Path]:
    """Return the files of the weights `name`: those that its index lists, or itself; none if they aren't there.

    Raises:
        UnusableError: for an index that is none, or that names a file elsewhere.
    """
    index = folder / f"{name}.index.json"
    names = {name}
    if index.is_file():
        where = read_json(index).get("weight_map")
        if not isinstance(where, dict) or not all(isinstance(file, str) for file in where.values()):
            raise UnusableError(f"{index.name} has no weight_map from weights to files")
        names = set(where.values())
        for file in names:
            if Path(file).name != file:
                raise UnusableError(f"{index.name} names the file {file!r}, which is not in this folder")
    files = [folder / file for file in sorted(names)]
    return files if all(file.is_file() for file in files) else []


def encoder_config(values: Mapping[str, Any]) -> PretrainedConfig:
    """Return the transformers config of an encoder; keys that could choose code have no say in it.

    Raises:
        UnusableError: with the reason.
    """
    values = without_code(values)
    model_type = values.pop("model_type", None)
    with wrap_errors(f"the encoder's config (model_type {model_type!r}) can't be used"):
        return AutoConfig.for_model(model_type, **values)


def read_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """Return a folder's tokenizer.

    transformers makes up an empty vocabulary where the files of one are missing, so they are looked for.

    Raises:
        UnusableError: with the reason.
        CoreError: `encoder.no_fast_tokenizer`.
    """
    with quiet_transformers(), wrap_errors("its tokenizer can't be read"):
        # RoBERTa's vocabulary tells words by the space before them, which a list of words doesn't have.
        wrapped = AutoTokenizer.from_pretrained(
            folder, add_prefix_space=True, trust_remote_code=False, local_files_only=True
        )
    if not wrapped.is_fast:
        raise CoreError("encoder.no_fast_tokenizer", path=folder)
    names = dict(wrapped.vocab_files_names)
    whole = names.pop("tokenizer_file", "tokenizer.json")
    if not (folder / whole).is_file() and not (names and all((folder / name).is_file() for name in names.values())):
        wanted = " and ".join(names.values())
        raise UnusableError(f"it has no {whole}" + (f" and no {wanted}" if wanted else ""))
    return wrapped


def put_spaces_before_words(tokenizer: Tokenizer) -> None:
    """Make a byte-level tokenizer read the words of a list as it reads words after a space.

    >>> tokenizer.encode(["Ada"], is_pretokenized=True).tokens  # doctest: +SKIP
    ['ĠAda']

    Raises:
        UnusableError: for one that can't.
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
        raise UnusableError("its byte-level tokenizer can't read a list of words as it reads words after spaces")


def _parts(pre_tokenizer: pre_tokenizers.PreTokenizer | None) -> Iterator[pre_tokenizers.PreTokenizer]:
    if isinstance(pre_tokenizer, pre_tokenizers.Sequence):
        for part in pre_tokenizer:  # type: ignore[attr-defined]  # by __getitem__
            yield from _parts(part)
    elif pre_tokenizer is not None:
        yield pre_tokenizer


def not_finite(weights: Mapping[str, Tensor]) -> tuple[str, int] | None:
    """Return the name of the first weight that holds NaN or infinity and how many; None if all are finite."""
    for name, weight in weights.items():
        finite = torch.isfinite(weight)
        if not finite.all():
            return name, int((~finite).sum())
    return None


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep transformers' bars, tables and warnings off the console; as it was afterwards."""
    verbosity, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bar:
            logging.enable_progress_bar()

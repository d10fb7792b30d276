"""Files and annotated data: content, lines and JSON; sentences of words with their entities, read strictly."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from spanmarker_core.data.conll import read_conll
from spanmarker_core.data.hf import read_dataset_folder
from spanmarker_core.data.jsonl import read_jsonl
from spanmarker_core.data.records import Sentence, Span

if TYPE_CHECKING:
    from spanmarker_core.formats.annotated import read_annotated

__all__ = ["Sentence", "Span", "read_annotated", "read_conll", "read_dataset_folder", "read_jsonl"]


def __getattr__(name: str) -> Any:
    if name == "read_annotated":  # which stands on these readers, and is imported from here by users
        return import_module("spanmarker_core.formats.annotated").read_annotated
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

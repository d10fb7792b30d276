"""Facts about what a model was made from, an encoder or a checkpoint, as far as its folder states them.

They are for the card only. A folder states what it likes, so the card checks them like all facts.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spanmarker_core.bundle.repositories import Found

#: Maximum size in bytes of a file that is read for facts.
_READ = 1 << 20
_LICENCE_FILES = ("LICENSE", "LICENSE.txt", "LICENSE.md")
#: What the beginning of a licence's text says -> the identifier that hubs use.
_LICENCE_TEXTS = {
    r"Apache License\s+Version 2\.0": "apache-2.0",
    r"MIT License|Permission is hereby granted, free of charge": "mit",
    r"Attribution-ShareAlike 4\.0 International": "cc-by-sa-4.0",
    r"Attribution 4\.0 International": "cc-by-4.0",
}
_REPOSITORY = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")


def encoder_origin(found: Found, stated: Mapping[str, object]) -> dict[str, str]:
    """Return the facts about an encoder: repository and commit, or else a name, and its licence.

    Args:
        found: the encoder.
        stated: facts that the user states, which are left out.
    """
    facts = {"encoder_licence": _licence(found.path)}
    if found.repository is not None:
        facts |= {"encoder_id": found.repository}
        if stated.get("encoder_id", found.repository) == found.repository:
            facts["encoder_revision"] = found.commit
    elif "encoder_id" not in stated:
        facts["encoder_name"] = _name_in_config(found.path) or found.path.absolute().name
    return {name: value for name, value in facts.items() if value and name not in stated}


def checkpoint_origin(found: Found) -> dict[str, str]:
    """Return the facts that a checkpoint of the span_marker library states about itself.

    Args:
        found: the checkpoint.
    """
    values = _front_matter(found.path)
    facts = {
        "origin": found.name if found.repository is not None else found.path.absolute().name,
        "licence_id": _licence(found.path),
        "language": _text(values.get("language"), ","),
        "dataset_id": _text(values.get("datasets")),
        "encoder_id": _text(values.get("base_model")),
    }
    return {name: value for name, value in facts.items() if value}


def _licence(folder: Path) -> str | None:
    """Return the identifier of a folder's licence, from the front matter of README.md or the text of LICENSE."""
    if (stated := _text(_front_matter(folder).get("license"))) not in (None, "other", "unknown"):
        return stated
    for name in _LICENCE_FILES:
        text = _read(folder / name)[:4000]
        for form, licence in _LICENCE_TEXTS.items():
            if re.search(form, text):
                return licence
    return None


def _name_in_config(folder: Path) -> str | None:
    """Return the name that transformers stored in a config; a path on another machine is none."""
    try:
        name = json.loads(_read(folder / "config.json"))["_name_or_path"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return name if isinstance(name, str) and _REPOSITORY.fullmatch(name) else None


def _front_matter(folder: Path) -> Mapping[str, Any]:
    from huggingface_hub import metadata_load

    try:
        values = metadata_load(folder / "README.md") if _read(folder / "README.md") else None
    except Exception:  # The YAML is somebody else's, and no training should fail because of it.
        return {}
    return values if isinstance(values, Mapping) else {}


def _read(file: Path) -> str:
    """Return the text of a file; empty if there is no such file, or it is too large or no text."""
    try:
        return file.read_text(encoding="utf-8") if file.stat().st_size <= _READ else ""
    except (OSError, ValueError):
        return ""


def _text(value: object, separator: str | None = None) -> str | None:
    """Return a text, or the texts of a list: the first, or all of them with a separator; None if it is neither."""
    texts = [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str)]
    if not texts:
        return None
    return texts[0] if separator is None else separator.join(texts)

"""Copies of infra/ to plant mistakes in."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.services.infra.checks import INFRA


@pytest.fixture
def planted(tmp_path) -> Callable[[str, str, str], Path]:
    """Copy infra/kubernetes with one text replaced in one of its files; return the copy."""

    def plant(file: str, old: str, new: str) -> Path:
        copy = tmp_path / "kubernetes"
        shutil.copytree(INFRA / "kubernetes", copy)
        text = (copy / file).read_text()
        assert old in text, f"{file} has no {old!r} to replace"
        (copy / file).write_text(text.replace(old, new, 1))
        return copy

    return plant

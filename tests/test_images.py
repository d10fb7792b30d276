"""The pictures of the documentation are small and as wide as docs/screenshots.py makes them."""

import struct
from pathlib import Path

import pytest

IMAGES = Path(__file__).parent.parent / "docs" / "images"


@pytest.mark.parametrize("name", ["run-report", "browse"])
def test_pictures_are_small(name):
    content = (IMAGES / f"{name}.png").read_bytes()
    assert content.startswith(b"\x89PNG")
    assert len(content) < 200_000
    assert struct.unpack(">I", content[16:20]) == (1280,)

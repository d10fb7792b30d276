"""Files of a bundle: small ones that appear whole or not at all, and pointers in the place of large ones."""

import os
from pathlib import Path

#: Ending of the file beside it that is written first; a killed process leaves it behind.
PART_ENDING = ".part"

#: Beginning of a file that Git LFS leaves in place of another one if it does not fetch it.
POINTER = b"version https://git-lfs"
#: What to tell users about a file for which `is_pointer` is true.
POINTER_PROBLEM = "it is a pointer of Git LFS, not the file itself: run git lfs pull where it came from"


def is_pointer(path: Path) -> bool:
    """Return whether a file is only the pointer that Git LFS leaves if it does not fetch the file itself.

    Args:
        path: a file that exists.
    """
    with path.open("rb") as file:
        return file.read(len(POINTER)) == POINTER


def publish_text(path: Path, text: str) -> None:
    """Write a text file atomically: it is written beside its place, synced and renamed.

    Args:
        path: the file, in an existing folder.
        text: its content.

    Raises:
        OSError: the file can't be written; an earlier file of that name is left as it was.
    """
    part = path.with_name(f"{path.name}{PART_ENDING}")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)

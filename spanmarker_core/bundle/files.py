"""Small text files that appear whole or not at all."""

import os
from pathlib import Path

#: Ending of the file beside it that is written first; a killed process leaves it behind.
PART_ENDING = ".part"


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

"""Pages of the reference that are written from the program itself, at the beginning of each build.

They are in docs/reference/generated/, which git ignores. A page is rewritten only if its text changes, so that a
second build has little to do.
"""

from pathlib import Path
from typing import Any

import commands
import error_codes
import metrics_and_events
import stored_tables
from sphinx.application import Sphinx

#: Functions that yield (name of a page, its Markdown).
SOURCES = (commands.pages, stored_tables.pages, error_codes.pages, metrics_and_events.pages)


def write(folder: Path) -> set[str]:
    """Write all generated pages, remove those of earlier builds, and return the names of the pages.

    Args:
        folder: the folder for them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pages = {name: text for source in SOURCES for name, text in source()}
    for name, text in pages.items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    for path in folder.glob("*.md"):
        if path.stem not in pages:
            path.unlink()
    return set(pages)


def _before_reading(app: Sphinx) -> None:
    write(Path(app.srcdir) / "reference" / "generated")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension.

    Args:
        app: the build.
    """
    app.connect("builder-inited", _before_reading)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

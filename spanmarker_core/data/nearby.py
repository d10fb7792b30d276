"""Files with names like that of one that does not exist, for error messages."""

from difflib import SequenceMatcher, get_close_matches
from pathlib import Path

#: Names of a folder that are compared at most.
_MOST = 10_000


def suggest_file(path: str | Path) -> str:
    """Return a question that names the most similar file or folder beside a path that does not exist; "" if none is.

    Args:
        path: a path; "" is returned for a URL, and for a pattern whose folder exists.
    """
    if "://" in str(path):
        return ""
    path = Path(path)
    missing = path
    while not missing.parent.exists() and missing.parent != missing:
        missing = missing.parent
    try:
        names = [each.name for each, _ in zip(missing.parent.iterdir(), range(_MOST), strict=False)]
    except OSError:
        return ""
    if set("*?[").intersection(missing.name):
        return ""
    similar = get_close_matches(missing.name, names, n=1, cutoff=0.7)
    # Names of one ending are similar for it alone.
    if similar and SequenceMatcher(None, missing.stem, Path(similar[0]).stem).ratio() >= 0.7:
        found = missing.with_name(similar[0])
        whole = found / path.relative_to(missing)
        return f" Did you mean {whole if whole.exists() else found}?"
    return "" if missing == path else f" There is no folder {missing}."

"""Names that end in a version, such as flat.v1, given with or without it."""

from collections.abc import Iterable


def versioned(name: str, known: Iterable[str]) -> str:
    """Return the known name that a name stands for: itself, or the latest version of it; otherwise the name as it is.

    >>> versioned("flat", ["flat.v1", "all.v1"]), versioned("all.v1", ["all.v1"]), versioned("x", ["all.v1"])
    ('flat.v1', 'all.v1', 'x')

    Args:
        name: a name with or without its version.
        known: the known names, earlier versions first.
    """
    return next((each for each in reversed(list(known)) if name in (each, each.rpartition(".")[0])), name)

"""The models: words, tokens, spans, tensors. No engine, no storage.

>>> from spanmarker_core import load
>>> model = load("bundle/")                            # doctest: +SKIP
>>> model.tag_text(["Müller flew to Zürich."])         # doctest: +SKIP
[[Entity(label='person', …), Entity(label='location', …)]]

Importing the package is cheap: torch is imported by the first `load`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spanmarker_core.loading import load
    from spanmarker_core.tagger import Entity, Tagger

__all__ = ["Entity", "Tagger", "load"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from spanmarker_core import loading, tagger

        return getattr(loading if name == "load" else tagger, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

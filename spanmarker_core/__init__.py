"""The models: words, tokens, spans, tensors. Nothing here knows an engine, an object store or a job file.

>>> from spanmarker_core import load
>>> model = load("bundle/")                            # doctest: +SKIP
>>> model.tag_text(["Müller flew to Zürich."])         # doctest: +SKIP
[[Entity(label='person', …), Entity(label='location', …)]]

Importing the package is cheap: torch is imported by the first `load`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spanmarker_core.inference.tagger import Entity, Tagger, load

__all__ = ["Entity", "Tagger", "load"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from spanmarker_core.inference import tagger

        return getattr(tagger, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""The models: words, tokens, spans, tensors. Engines, object stores and job files don't belong here.

>>> from spanmarker_core import load
>>> model = load()  # the bundled model; or a folder, or owner/name on the Hub  # doctest: +SKIP
>>> model.tag_text("Müller flew to Zürich.")  # doctest: +SKIP
[Entity(label='person', …), Entity(label='location', …)]

Importing the package is cheap: torch is imported on the first access to `load`, `Tagger` or `Entity`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spanmarker_core.inference.tagger import Entity, Tagger, load

__all__ = ["Entity", "Tagger", "__version__", "load"]

#: Version of the distribution, which pyproject.toml reads from here.
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name in __all__:
        from spanmarker_core.inference import tagger

        return getattr(tagger, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

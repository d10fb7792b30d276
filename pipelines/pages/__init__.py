"""The shell of all web pages: one self-contained HTML file each, readable offline and on paper.

A page is a template that extends `base.html.j2`. Its style and its one script, which sorts tables, filters examples and
copies commands, are inlined and are the only ones that its Content-Security-Policy allows; nothing is fetched. Text of
documents is hostile until it was escaped by the templates or by `pipelines.pages.text`.
"""

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pipelines.pages.figures import decimal, number, percent, seconds, size
from pipelines.pages.text import command, file_name, name, shown
from spanmarker_core import charts
from spanmarker_core.text.counted import counted

#: Callers limit the length of the lists that they pass to templates, so that pages stay small.
_FILTERS = {
    "number": number,
    "counted": counted,
    "decimal": decimal,
    "percent": percent,
    "seconds": seconds,
    "size": size,
    "shown": shown,
    "command": command,
    "file_name": file_name,
    "name": name,
    "meter": charts.meter,
}


def render(template: str, *, title: str, headline: str = "", forms: bool = False, **values: Any) -> bytes:
    """Return a complete page as UTF-8 HTML.

    Args:
        template: name of a file in `templates/`, without its `.html.j2`.
        title: what kind of page this is, plain text.
        headline: what the page says in short, plain text; empty shows the title in its place.
        forms: whether the page may submit forms to its own origin.
        values: variables of the template; a missing variable is an error.
    """
    text = (
        _environment()
        .get_template(f"{template}.html.j2")
        .render(title=title, headline=headline, policy=policy(forms=forms), **values)
    )
    return text.encode("utf-8", "replace")  # A lone surrogate cannot be encoded in UTF-8.


@cache
def policy(*, forms: bool = False) -> str:
    """Return the Content-Security-Policy of a page, which allows only the page's own style and script.

    Args:
        forms: whether the page may submit forms to its own origin.
    """
    parts = {
        "default-src": "'none'",
        "style-src": _digest(_resource("style.css")),
        "script-src": _digest(_resource("tables.js")),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'self'" if forms else "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in parts.items())


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("pipelines.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= _FILTERS
    # The policy has digests of these trusted texts, so they must not be escaped.
    environment.globals |= {"style": Markup(_resource("style.css")), "script": Markup(_resource("tables.js"))}
    return environment


@cache
def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

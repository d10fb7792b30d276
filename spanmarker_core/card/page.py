"""Writing of model cards and of the files stored beside them."""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from spanmarker_core.bundle.config import ModelConfig
from spanmarker_core.bundle.files import publish_text
from spanmarker_core.bundle.reader import CARD, CARD_FACTS, GATE_CURVE, read_info
from spanmarker_core.card.content import content
from spanmarker_core.card.facts import Facts
from spanmarker_core.card.gate_curve import curve_svg
from spanmarker_core.card.text import escaped, paragraph
from spanmarker_core.errors import CoreError, UnusableError, as_core_error


def model_card(config: ModelConfig, facts: Facts | None = None) -> str:
    """Return the text of README.md.

    Facts may contain arbitrary values: those of an unexpected type are omitted, and no text can break the page.

    Args:
        config: the bundle's config, including its facts.
        facts: additional facts, which take precedence over those of the config.
    """
    return _template().render(content(config, {**config.facts, **(facts or {})}))


def card_files(config: ModelConfig, facts: Facts | None = None) -> dict[str, str]:
    """Return the texts of the files stored beside the card, by name.

    Args:
        config: the bundle's config.
        facts: facts for card.json; without any, the file is omitted.
    """
    beside = {} if config.gate is None else {GATE_CURVE: curve_svg(config.gate)}
    if facts:
        beside[CARD_FACTS] = json.dumps(facts, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    return beside


def read_card_facts(path: str | Path) -> dict[str, Any]:
    """Return the facts in a bundle's card.json; an empty dict if the file does not exist.

    Args:
        path: the bundle's folder.

    Raises:
        CoreError: `bundle.bad_file`.
    """
    file = Path(path) / CARD_FACTS
    if not file.exists():
        return {}
    with as_core_error("bundle.bad_file", path=path, file=CARD_FACTS):
        try:
            facts = json.loads(file.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise UnusableError(f"it is not JSON ({error})") from error
        if not isinstance(facts, dict):
            raise UnusableError("it is not a JSON object")
    return facts


def rewrite_card(path: str | Path, facts: Mapping[str, object]) -> None:
    """Rewrite a bundle's card with additional facts; the model itself is not changed.

    Args:
        path: the bundle's folder.
        facts: facts to add or replace; None removes a fact.

    Raises:
        CoreError: `bundle.not_found`, `bundle.missing_file`, `bundle.digest_mismatch`, `bundle.bad_file`,
            `bundle.bad_config`, `bundle.format_too_new`, `checkpoint.no_outside_label` or `encoder.entity_too_long` if
            the bundle cannot be read; `bundle.output_not_writable`.
    """
    config = read_info(path).config
    known = {name: value for name, value in {**read_card_facts(path), **facts}.items() if value is not None}
    texts = {**card_files(config, known), CARD: model_card(config, known)}
    path = Path(path)
    try:
        if not known:
            (path / CARD_FACTS).unlink(missing_ok=True)
        for name, text in texts.items():
            publish_text(path / name, text)
    except OSError as error:
        raise CoreError("bundle.output_not_writable", path=path, reason=error) from error


@cache
def _template() -> Template:
    environment = Environment(
        finalize=escaped,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # for HTML; `escaped` escapes Markdown in every value that is not `Markup`
    )
    environment.filters |= {
        "markup": Markup,
        "paragraph": paragraph,
        "code": lambda text: Markup(json.dumps(text, ensure_ascii=False)),
        "count": lambda value: "" if _missing(value) else f"{value:,}",
        "rate": lambda value, digits=1: "" if _missing(value) else f"{value:.{digits}%}",
        "digits": lambda value: "" if _missing(value) else f"{value:.4f}",
    }
    return environment.from_string(files(__package__).joinpath("card.md.j2").read_text(encoding="utf-8"))


def _missing(value: object) -> bool:
    return value is None or isinstance(value, StrictUndefined)

"""Front matter of a card: the metadata that model hubs read and validate.

A hub rejects a card whose `license`, `datasets`, `base_model`, `language` or `model-index` is malformed. Each is
therefore written only if it is valid; further information about licence and data is on the page. Source:
https://github.com/huggingface/hub-docs/blob/main/modelcard.md.
"""

import re
from typing import Any

from huggingface_hub import EvalResult, ModelCardData
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]  # public, as its documentation says

from spanmarker_core.bundle.config import ModelConfig
from spanmarker_core.card.architectures import kind_of, title_of
from spanmarker_core.card.facts import Facts, split_scores, summary, text
from spanmarker_core.card.text import one_line

TASK, TASK_NAME = "token-classification", "Named Entity Recognition"

#: Licence identifiers that hubs know (docs/hub/repositories-licenses.md); all others become `other` with a name.
_KNOWN_LICENCES = (
    "apache-2.0 mit openrail bigscience-openrail-m creativeml-openrail-m bigscience-bloom-rail-1.0 "
    "bigcode-openrail-m afl-3.0 artistic-2.0 bsl-1.0 bsd bsd-2-clause bsd-3-clause bsd-3-clause-clear c-uda cc cc0-1.0 "
    "cc-by-2.0 cc-by-2.5 cc-by-3.0 cc-by-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc-by-nc-2.0 cc-by-nc-3.0 cc-by-nc-4.0 "
    "cc-by-nd-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0 cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cdla-sharing-1.0 "
    "cdla-permissive-1.0 cdla-permissive-2.0 wtfpl ecl-2.0 epl-1.0 epl-2.0 etalab-2.0 eupl-1.1 agpl-3.0 gfdl gpl "
    "gpl-2.0 gpl-3.0 lgpl lgpl-2.1 lgpl-3.0 isc lppl-1.3c ms-pl mpl-2.0 odc-by odbl openrail++ osl-3.0 postgresql "
    "ofl-1.1 ncsa unlicense zlib pddl lgpl-lr deepfloyd-if-license llama2 gemma unknown other"
)
LICENCES = frozenset(_KNOWN_LICENCES.split())
_LANGUAGE = re.compile(r"[a-z]{2,3}|multilingual|code")


def front_matter(config: ModelConfig, facts: Facts) -> str:
    """Return the YAML of a card, without the enclosing lines.

    Args:
        config: the bundle's config.
        facts: facts of the card.
    """
    known = summary(facts)
    data = ModelCardData(
        library_name="spanmarker-pipelines",
        tags=[kind_of(config).lower(), TASK, "ner", "named-entity-recognition", "generated_from_spanmarker_pipelines"],
        language=languages(facts) or None,
        **_licence(facts),
        datasets=_one(_repository(facts, "dataset_id")),
        metrics=["precision", "recall", "f1"],
        base_model=_repository(facts, "encoder_id"),
        widget=[{"text": one_line(example, 300)} for example in known.example_sentences[:10]] if known else None,
        pipeline_tag=TASK,
        model_name=title_of(config, facts),
        eval_results=_results(facts),
        **_emissions(facts),
    )
    return data.to_yaml()


def languages(facts: Facts) -> list[str]:
    """Return the stated languages that hubs accept: ISO 639 codes, separated by blanks or commas in the fact.

    Args:
        facts: facts of the card.
    """
    stated = re.split(r"[\s,]+", text(facts, "language") or "")
    return [code for code in dict.fromkeys(code.lower() for code in stated) if _LANGUAGE.fullmatch(code)]


def _licence(facts: Facts) -> dict[str, Any]:
    stated = text(facts, "licence_id", 64)
    if stated is None and text(facts, "licence") is None:
        stated = text(facts, "encoder_licence", 64)
    stated = (stated or "unknown").lower()
    if stated in LICENCES and stated != "other":
        return {"license": stated}
    return {"license": "other", "license_name": re.sub(r"[^a-z0-9.]+", "-", stated).strip("-.") or "other"}


def _repository(facts: Facts, name: str) -> str | None:
    stated = text(facts, name)
    try:
        validate_repo_id(stated)
    except HFValidationError:
        return None
    return stated


def _one(value: str | None) -> list[str] | None:
    return None if value is None else [value]


def _results(facts: Facts) -> list[EvalResult] | None:
    data = text(facts, "training_data", 250) or "Unknown"
    return [
        EvalResult(
            task_type=TASK,
            task_name=TASK_NAME,
            dataset_type=_repository(facts, "dataset_id") or "unknown",
            dataset_name=data,
            dataset_split=split,
            metric_type=name,
            metric_name=name.capitalize(),
            metric_value=float(scores[name]),
        )
        for split, scores in split_scores(facts).items()
        for name in ("f1", "precision", "recall")
    ] or None


def _emissions(facts: Facts) -> dict[str, Any]:
    """Return grams of CO2 equivalents, if they were measured."""
    measured = facts.get("carbon_kg")
    if not isinstance(measured, int | float) or isinstance(measured, bool) or not 0 <= measured < 1e12:
        return {}
    values = {"emissions": float(measured) * 1000, "source": text(facts, "carbon_source", 200)}
    return {"co2_eq_emissions": {name: value for name, value in values.items() if value is not None}}

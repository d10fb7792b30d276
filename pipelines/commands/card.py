"""`spanmarker card`: rewrites a bundle's model card with facts that were unknown or have changed since training."""

import inspect
from itertools import islice
from typing import Annotated, Any

import typer

from pipelines.commands.options import Scheme, options_of, shown, with_options
from spanmarker_core.errors import CoreError
from spanmarker_core.shown import Panel


def _options() -> list[inspect.Parameter]:
    from pipelines.jobs.shared import CardTexts

    return options_of(CardTexts)


@with_options(_options)
def card(
    bundle: Annotated[
        str, typer.Argument(metavar="BUNDLE", help="Folder of the bundle. Its model and digest do not change.")
    ],
    carbon_kg: Annotated[
        float | None, shown(Panel.CARD, "KG", "Measured emissions, in kg of CO2 equivalents.", min=0)
    ] = None,
    carbon_source: Annotated[str | None, shown(Panel.CARD, "TEXT", "How the emissions were measured.")] = None,
    train: Annotated[
        str | None, shown(Panel.FILES, "DATA", "Training data of the model, for counts and examples of each label.")
    ] = None,
    dev: Annotated[
        str | None,
        shown(
            Panel.FILES,
            "DATA",
            "Data on which the best epoch was chosen. It is tagged to measure the entity density of the run reports.",
        ),
    ] = None,
    scheme: Scheme = None,
    **texts: Any,
) -> None:
    """Rewrite a bundle's README.md from its stored facts and these options, which are saved in card.json.

    Pass "" to remove a stored value.
    """
    stated: dict[str, Any] = {**texts, "carbon_kg": carbon_kg, "carbon_source": carbon_source}
    facts = {name: value if value != "" else None for name, value in stated.items() if value is not None}

    from rich.console import Console

    from pipelines.output.overwrite import begins, refuse_overwrites
    from spanmarker_core.bundle.reader import CARD, CARD_FACTS, GATE_CURVE, read_info
    from spanmarker_core.card import rewrite_card

    files = {CARD: begins(b"", b"spanmarker-pipelines"), CARD_FACTS: begins(b"{"), GATE_CURVE: begins(b"<svg")}
    refuse_overwrites("BUNDLE", bundle, files, [each for each in (train, dev) if each])
    if train is not None:
        facts["data"] = _summary(train, scheme, read_info(bundle).config.facts)
    if dev is not None:
        facts["density"] = _density(bundle, dev, scheme)
    rewrite_card(bundle, facts)
    Console().print(f"{bundle}: card written", markup=False, highlight=False)


def _summary(path: str, scheme: str | None, facts: dict[str, Any]) -> dict[str, Any]:
    """Summarise the training data, limited to the sentences that the model was trained on.

    Raises:
        CoreError: `card.other_data`; `data.*` if the data cannot be read.
    """
    from spanmarker_core.data import read_annotated
    from spanmarker_core.data.summary import summarise

    sentences, entities = facts.get("train_sentences"), facts.get("train_entities")
    known = type(sentences) is int and type(entities) is int
    summary = summarise(islice(read_annotated(path, scheme), sentences if known else None))
    found = (summary.sentences, summary.entities)
    if known and found != (sentences, entities):
        counts = "{:,} sentences with {:,} entities".format
        raise CoreError("card.other_data", path=path, found=counts(*found), expected=counts(sentences, entities))
    return summary.to_json()


def _density(bundle: str, path: str, scheme: str | None) -> dict[str, Any] | None:
    """Tag the dev data with the bundle, as training does at its end, and return the entity density, if measurable.

    Raises:
        CoreError: `card.other_data`; `data.*` if the data cannot be read.
    """
    from spanmarker_core import load
    from spanmarker_core.data import read_annotated
    from spanmarker_core.evaluation.dev_density import measure_density

    tagger, sentences = load(bundle), list(read_annotated(path, scheme))
    known = tagger.config.facts.get("dev_sentences")
    if type(known) is int and known != len(sentences):
        raise CoreError(
            "card.other_data", path=path, found=f"{len(sentences):,} sentences", expected=f"{known:,} for dev"
        )
    found = measure_density(tagger, sentences)
    return None if found is None else found.to_json()

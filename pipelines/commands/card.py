"""`spanmarker card`: a bundle's model card, written anew with what was not known, or was otherwise, in training."""

from itertools import islice
from typing import Annotated, Any

import typer

from spanmarker_core.errors import CoreError


def card(
    bundle: Annotated[str, typer.Argument(help="Folder of the bundle. Its model and digest stay as they are.")],
    name: Annotated[str | None, typer.Option(help="Of the model.")] = None,
    description: Annotated[str | None, typer.Option(help="What it is.")] = None,
    licence: Annotated[str | None, typer.Option(help="Its licence, in words.")] = None,
    licence_id: Annotated[str | None, typer.Option(help="Its licence, as model hubs name it: cc-by-4.0.")] = None,
    language: Annotated[str | None, typer.Option(help="Language codes: en, or en,de.")] = None,
    training_data: Annotated[str | None, typer.Option(help="Name and source of the data.")] = None,
    data_licence: Annotated[str | None, typer.Option(help="Licence of the data, in words.")] = None,
    dataset_id: Annotated[str | None, typer.Option(help="The data's repository on a hub: owner/name.")] = None,
    encoder_name: Annotated[str | None, typer.Option(help="Name of the encoder.")] = None,
    encoder_id: Annotated[str | None, typer.Option(help="The encoder's repository on a hub: owner/name.")] = None,
    not_for: Annotated[str | None, typer.Option(help="What the model must not be used for.")] = None,
    carbon_kg: Annotated[float | None, typer.Option(min=0, help="Kg of CO2 equivalents, as measured.")] = None,
    carbon_source: Annotated[str | None, typer.Option(help="How that was measured.")] = None,
    train: Annotated[
        str | None, typer.Option(help="The data it was trained on, for counts and examples of each label.")
    ] = None,
    dev: Annotated[
        str | None,
        typer.Option(help="The data that chose its best epoch: tagged, for the density that run reports compare with."),
    ] = None,
    scheme: Annotated[str | None, typer.Option(help="Label scheme of tagged data, such as IOB2.")] = None,
) -> None:
    """Write a bundle's README.md anew from its facts and these, which are kept in its card.json. "" takes one back."""
    stated: dict[str, Any] = {
        "name": name,
        "description": description,
        "licence": licence,
        "licence_id": licence_id,
        "language": language,
        "training_data": training_data,
        "data_licence": data_licence,
        "dataset_id": dataset_id,
        "encoder_name": encoder_name,
        "encoder_id": encoder_id,
        "not_for": not_for,
        "carbon_kg": carbon_kg,
        "carbon_source": carbon_source,
    }
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
    """Sum up training data, the first sentences of them where the model was trained on no more.

    Raises:
        CoreError: `card.other_data`, and those of reading them.
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
    """Tag dev data with the bundle, as the end of a training does, and return the fact; None where they are too few.

    Raises:
        CoreError: `card.other_data`, and those of reading them.
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

"""`spanmarker evaluate`: scores a model on annotated sentences."""

import inspect
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from pipelines.commands.options import Data, Device, Model, Scheme, options_of, shown, with_options
from spanmarker_core.shown import Panel


def _options() -> list[inspect.Parameter]:
    from pipelines.jobs.shared import AnnotatedColumns, DocumentColumns

    return options_of(AnnotatedColumns, DocumentColumns, without={"scheme", "id_column", "text_column"})


@with_options(_options)
def evaluate(
    model: Model,
    data: Data,
    scheme: Scheme = None,
    report: Annotated[
        str | None,
        shown(Panel.FILES, "FOLDER", "Folder for evaluation.html, evaluation.md, evaluation.json and the predictions."),
    ] = None,
    train: Annotated[
        str | None,
        shown(
            Panel.FILES,
            "DATA",
            "Training data of the model; --report uses it to separate seen from unseen entities and words.",
        ),
    ] = None,
    decoder: Annotated[
        str | None, shown(Panel.MODEL, "NAME", "flat.v1, nested.v1 or all.v1.  [default: as stored in the model]")
    ] = None,
    threshold: Annotated[
        float | None,
        shown(Panel.MODEL, "SCORE", "Minimum score, 0 to 1.  [default: as stored in the model]", min=0, max=1),
    ] = None,
    gate: Annotated[
        str,
        shown(
            Panel.MODEL,
            "auto|on|off",
            "Score only spans that pass the gate: auto (as trained), on (always) or off (never).",
        ),
    ] = "auto",
    device: Device = "cpu",
    dtype: Annotated[
        str, shown(Panel.SPEED, "float32|bfloat16|int8", "float32; bfloat16 or int8, which change scores.")
    ] = "float32",
    **options: Any,
) -> None:
    """Score a model: precision, recall and F1 over all gold entities, micro, macro and per label."""
    from dataclasses import replace
    from time import monotonic

    from pipelines.commands.scores import print_scores
    from pipelines.report.evaluation import analysed, publish_report
    from pipelines.report.folder import refuse_foreign, report_folder
    from pipelines.report.predictions import PREDICTIONS, is_predictions
    from pipelines.report.printed import print_plain, wide_console
    from pipelines.storage import absolute
    from spanmarker_core import load
    from spanmarker_core.bundle.config import describe_gate
    from spanmarker_core.bundle.reader import read_info
    from spanmarker_core.bundle.repositories import find_bundle
    from spanmarker_core.data import Sentence, read_annotated
    from spanmarker_core.evaluation.evaluate import evaluate as score
    from spanmarker_core.evaluation.evaluate import unknown_labels
    from spanmarker_core.evaluation.scores.analysis import Analysis

    folder = absolute(report) if report else None
    if folder:
        inputs = [model, data, *([train] if train else [])]
        refuse_foreign(folder, "evaluation", inputs, {PREDICTIONS: is_predictions})
    found = find_bundle(model)
    info = read_info(found.path)
    given = {name: value for name, value in options.items() if value is not None}

    def annotated(path: str) -> Iterator[Sentence]:
        return read_annotated(path, scheme, splitter=info.config.splitter, **given)

    sentences = annotated(data)
    training = None
    if train is not None:
        if folder is None:
            raise typer.BadParameter("--train requires --report.")
        training = annotated(train)
    tagger = load(info.path, device, dtype, gate)
    analysis: Analysis | None = None
    began = monotonic()
    if folder is None:
        result = score(tagger, sentences, decoder=decoder, threshold=threshold)
        seconds = monotonic() - began
    else:
        with report_folder(folder):  # last of the checks, because it creates the folder
            analysis, seconds = analysed(folder, tagger, sentences, training, decoder=decoder, threshold=threshold)
        result = replace(analysis.result(), f1_interval=analysis.f1_interval())
    unknown = unknown_labels(tagger, result)
    candidates = tagger.work["candidates"]
    facts = {
        "model": found.name,
        "model_digest": info.digest,
        "data": data,
        **({} if train is None else {"train": train}),
        "entity_max_length": info.config.entity_max_length,
        "context": info.config.context.policy,
        "decoder": decoder or info.config.decoder,
        "threshold": info.config.threshold if threshold is None else threshold,
        "gate": describe_gate(tagger.gate_threshold),
        "scored_spans": f"{tagger.work['scored_candidates']:,} of {candidates:,} candidates" if candidates else "none",
        "device": str(tagger.device),
        "dtype": dtype,
        **(
            {"unknown_labels": ", ".join(f"{label} ({count:,})" for label, count in unknown.items())} if unknown else {}
        ),
        "sentences_per_second": round(result.sentences / seconds, 1),
    }
    console = wide_console()
    if folder and analysis:
        page = publish_report(folder, result, facts, analysis.to_json())
        print_plain(console, f"Report: {page}")
    print_scores(console, result, facts)

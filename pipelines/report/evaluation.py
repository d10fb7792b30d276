"""Writes an evaluation: evaluation.json, evaluation.md and evaluation.html in a folder, from the same values."""

from collections.abc import Iterable, Mapping
from time import monotonic
from typing import Any

from pipelines.report.evaluation_page import evaluation_page
from pipelines.report.folder import publish_files
from pipelines.report.predictions import writing_predictions
from spanmarker_core.data import Sentence
from spanmarker_core.evaluation.evaluate import check_scored
from spanmarker_core.evaluation.markdown import details_to_markdown
from spanmarker_core.evaluation.predict import predict
from spanmarker_core.evaluation.report import to_json, to_markdown
from spanmarker_core.evaluation.scores.analysis import Analysis, Setting
from spanmarker_core.evaluation.scores.attributes import TrainingForms
from spanmarker_core.evaluation.scores.metrics import EvaluationResult
from spanmarker_core.inference.tagger import Tagger
from spanmarker_core.spans.decoding import Threshold


def analysed(
    folder: str,
    model: Tagger,
    sentences: Iterable[Sentence],
    training: Iterable[Sentence] | None = None,
    *,
    decoder: str | None = None,
    threshold: Threshold = None,
) -> tuple[Analysis, float]:
    """Tag annotated sentences, write the predictions to the folder and return what is to be told of them.

    Args:
        folder: of the report; it is there.
        model: a loaded model.
        sentences: the sentences of a document next to each other, in order. Streamed.
        training: what the model was trained on; None leaves out what needs it.
        decoder, threshold: as in `Tagger.tag_words`.

    Returns:
        The analysis, and the seconds that the model took.

    Raises:
        CoreError: those of `spanmarker_core.evaluation.evaluate.evaluate`; then no predictions are written.
    """
    setting = Setting(
        model.config.entity_max_length,
        model.config.threshold if threshold is None else threshold,
        model.config.gives_tags,
    )
    stream = predict(model, sentences, decoder=decoder, threshold=threshold)
    analysis = Analysis(setting, None if training is None else TrainingForms.of(training))
    seconds = 0.0
    with writing_predictions(folder) as writer:
        while True:
            began = monotonic()
            predicted = next(stream, None)
            seconds += monotonic() - began
            if predicted is None:
                break
            analysis.add(predicted.sentence, predicted.predictions, predicted.lowered)
            writer.add(predicted.sentence, predicted.predictions)
        check_scored(model, analysis.result())
    return analysis, seconds


def publish_report(
    folder: str, result: EvaluationResult, facts: Mapping[str, object], details: Mapping[str, Any]
) -> str:
    """Write the three files and return the path of the page.

    Args:
        folder: where to.
        result: the scores.
        facts: what was scored and how, see `spanmarker_core.evaluation.report.to_json`.
        details: what `spanmarker_core.evaluation.scores.analysis.Analysis.to_json` gives.
    """
    values = to_json(result, facts, details)
    markdown = f"{to_markdown(result, facts)}\n{details_to_markdown(details)}"
    return publish_files(folder, "evaluation", values, markdown, evaluation_page(values))

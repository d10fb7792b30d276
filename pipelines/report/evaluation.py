"""Writer of evaluation reports: evaluation.json, evaluation.md and evaluation.html, from the same values."""

from collections.abc import Iterable, Mapping
from time import monotonic
from typing import Any

from pipelines.report.evaluation_page import evaluation_page
from pipelines.report.folder import publish_files
from pipelines.report.predictions import writing_predictions
from spanmarker_core.data import Sentence
from spanmarker_core.evaluation.evaluate import check_scored, labels_of
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
    """Tag annotated sentences, write the predictions to the report folder and return the analysis.

    Args:
        folder: existing folder of the report.
        model: a loaded model.
        sentences: sentences, streamed; those of a document are adjacent and in order.
        training: training data of the model; None omits the statistics that need it.
        decoder: name of the decoder; None selects that of the model.
        threshold: minimum score of an entity; None selects that of the model.

    Returns:
        The analysis, and the time spent in the model, in seconds.

    Raises:
        CoreError: `data.no_entities`, `data.no_common_label`; no predictions are written in these cases.
    """
    setting = Setting(
        model.config.entity_max_length,
        model.config.threshold if threshold is None else threshold,
        model.config.gives_tags,
        labels_of(model),
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
        folder: a path or URL.
        result: the scores.
        facts: description of the model, the data and the settings, see `spanmarker_core.evaluation.report.to_json`.
        details: values of `spanmarker_core.evaluation.scores.analysis.Analysis.to_json`.
    """
    values = to_json(result, facts, details)
    markdown = f"{to_markdown(result, facts)}\n{details_to_markdown(details)}"
    return publish_files(folder, "evaluation", values, markdown, evaluation_page(values))

"""Evaluation of a model on annotated sentences."""

from collections.abc import Iterable

from spanmarker_core.data import Sentence, Span
from spanmarker_core.data.batches import document_batches
from spanmarker_core.errors import CoreError
from spanmarker_core.evaluation.scores.metrics import EvaluationResult, SpanScorer
from spanmarker_core.inference.tagger import Tagger
from spanmarker_core.spans.decoding import Threshold

_SENTENCES_A_CALL = 256


def evaluate(
    model: Tagger, sentences: Iterable[Sentence], *, decoder: str | None = None, threshold: Threshold = None
) -> EvaluationResult:
    """Tag `sentences` with the bundle's context policy and score the result against their entities.

    Args:
        model: a loaded model.
        sentences: annotated sentences, grouped by document and in order. They are streamed.
        decoder: a name in `DECODERS`; None uses the bundle's decoder.
        threshold: minimum score, for all labels or by label; None uses the bundle's threshold.

    Raises:
        CoreError: `data.no_entities` if the sentences have no entities; `data.no_common_label` if the model knows none
            of their labels. Gold entities of other labels that the model does not know count as missed.
    """
    result = score(model, sentences, decoder=decoder, threshold=threshold).result()
    check_scored(model, result)
    return result


def check_scored(model: Tagger, result: EvaluationResult) -> None:
    """Reject a result that cannot measure the quality of the model.

    Args:
        model: the model that was evaluated.
        result: its scores.

    Raises:
        CoreError: `data.no_entities` if there are no gold entities; `data.no_common_label` if the model knows none of
            their labels.
    """
    known = set(model.config.labels) - {model.config.outside}
    gold = {label for label, scores in result.per_label.items() if scores.support}
    if not gold:
        raise CoreError("data.no_entities", path="the evaluation data")
    if not gold & known:
        raise CoreError("data.no_common_label", found=", ".join(sorted(gold)), labels=", ".join(sorted(known)))


def score(
    model: Tagger, sentences: Iterable[Sentence], *, decoder: str | None = None, threshold: Threshold = None
) -> SpanScorer:
    """Tag and score as `evaluate` does, without checking the result; scorers of parts of the data can be merged.

    Args:
        model: a loaded model.
        sentences: as in `evaluate`.
        decoder: as in `evaluate`.
        threshold: as in `evaluate`.
    """
    scorer = SpanScorer(entity_max_length=model.config.entity_max_length)
    for batch in document_batches(sentences, _SENTENCES_A_CALL):
        tagged = model.tag_words(
            [sentence.words for sentence in batch],
            document_ids=[sentence.document_id for sentence in batch],
            decoder=decoder,
            threshold=threshold,
        )
        for sentence, entities in zip(batch, tagged, strict=True):
            predicted = [Span(entity.word_start, entity.word_end, entity.label) for entity in entities]
            scorer.add(sentence.entities, predicted)
    return scorer

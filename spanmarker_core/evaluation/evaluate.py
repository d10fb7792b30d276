"""Runs a model over annotated sentences and scores it."""

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
        sentences: annotated; the sentences of a document next to each other, in order. Streamed.
        decoder, threshold: as in `Tagger.tag_words`.

    Raises:
        CoreError: `data.no_entities` where there is nothing to score; `data.no_common_label` where the model
            has a class for none of it. Gold of single labels that the model doesn't know counts as missed.
    """
    result = score(model, sentences, decoder=decoder, threshold=threshold).result()
    check_scored(model, result)
    return result


def check_scored(model: Tagger, result: EvaluationResult) -> None:
    """Refuse a result that says nothing of the model.

    Raises:
        CoreError: `data.no_entities`, `data.no_common_label`.
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
    """Tag and score as `evaluate` does, whatever there is; scorers of parts of some data can be merged."""
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

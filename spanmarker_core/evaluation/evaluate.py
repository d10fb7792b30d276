"""Evaluation of a model on annotated sentences."""

import warnings
from collections.abc import Iterable
from dataclasses import replace

from spanmarker_core.data import Sentence, Span
from spanmarker_core.data.batches import document_batches
from spanmarker_core.errors import CoreError, CoreWarning
from spanmarker_core.evaluation.scores.metrics import EvaluationResult, SpanScorer
from spanmarker_core.evaluation.scores.significance import DocumentCounts
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
            of their labels. Gold entities of other labels that the model does not know count as missed, and the
            warning `data.unknown_labels` names these labels.
    """
    documents = DocumentCounts()
    result = score(model, sentences, decoder=decoder, threshold=threshold, documents=documents).result()
    check_scored(model, result)
    return replace(result, f1_interval=documents.f1_interval())


def labels_of(model: Tagger) -> frozenset[str]:
    """Return the labels that a model can predict.

    Args:
        model: a loaded model.
    """
    return frozenset(model.config.labels) - {model.config.outside}


def unknown_labels(model: Tagger, result: EvaluationResult) -> dict[str, int]:
    """Return the number of gold entities by label, for labels that the model does not have.

    Args:
        model: the model that was evaluated.
        result: its scores.
    """
    known = labels_of(model)
    gold = {label: scores.support for label, scores in result.per_label.items() if scores.support}
    return {label: count for label, count in gold.items() if label not in known}


def check_scored(model: Tagger, result: EvaluationResult) -> None:
    """Reject a result that cannot measure the quality of the model, and warn of labels that the model does not have.

    Args:
        model: the model that was evaluated.
        result: its scores.

    Raises:
        CoreError: `data.no_entities` if there are no gold entities; `data.no_common_label` if the model knows none of
            their labels.
    """
    known = labels_of(model)
    gold = {label for label, scores in result.per_label.items() if scores.support}
    if not gold:
        raise CoreError("data.no_entities", path="the evaluation data")
    if not gold & known:
        raise CoreError("data.no_common_label", found=", ".join(sorted(gold)), labels=", ".join(sorted(known)))
    if unknown := unknown_labels(model, result):
        values = {"labels": ", ".join(unknown), "count": sum(unknown.values()), "known": ", ".join(sorted(known))}
        warnings.warn(CoreWarning("data.unknown_labels", values, total=result.micro.support), stacklevel=3)


def score(
    model: Tagger,
    sentences: Iterable[Sentence],
    *,
    decoder: str | None = None,
    threshold: Threshold = None,
    documents: DocumentCounts | None = None,
) -> SpanScorer:
    """Tag and score as `evaluate` does, without checking the result; scorers of parts of the data can be merged.

    Args:
        model: a loaded model.
        sentences: as in `evaluate`.
        decoder: as in `evaluate`.
        threshold: as in `evaluate`.
        documents: receives the counts of each document.
    """
    scorer = SpanScorer(model.config.entity_max_length, labels_of(model))
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
            if documents is not None:
                documents.add(sentence.document_id, set(sentence.entities), set(predicted))
    return scorer

"""Prediction on annotated sentences in a single pass, both with the given threshold and with a lower one."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from spanmarker_core.bundle.config import decoder_of
from spanmarker_core.data import Sentence, Span
from spanmarker_core.data.batches import document_batches
from spanmarker_core.data.windows import pack_annotated
from spanmarker_core.evaluation.scores.curves import FLOOR
from spanmarker_core.inference.tagger import Tagger
from spanmarker_core.spans.decoding import Candidates, Threshold, decode, threshold_vector

#: Number of sentences that are tagged and held in memory at once; more if a single document has more.
SENTENCES_A_CALL = 256


@dataclass(frozen=True, slots=True)
class Predicted:
    """A sentence with its predictions.

    Attributes:
        sentence: the sentence, with its gold entities.
        predictions: the predicted entities with their scores, 0 to 1.
        lowered: the entities predicted with the threshold `FLOOR` for all labels, with their scores.
    """

    sentence: Sentence
    predictions: dict[Span, float]
    lowered: dict[Span, float]


def predict(
    model: Tagger, sentences: Iterable[Sentence], *, decoder: str | None = None, threshold: Threshold = None
) -> Iterator[Predicted]:
    """Tag annotated sentences with the bundle's context policy, scoring each window once.

    The predictions equal those of `Tagger.tag_words`; `lowered` equals its result with `threshold=FLOOR`.

    Args:
        model: a loaded model.
        sentences: annotated sentences, grouped by document and in order. They are streamed.
        decoder: a name in `DECODERS`; None uses the bundle's decoder.
        threshold: minimum score, for all labels or by label; None uses the bundle's threshold.

    Raises:
        CoreError: `call.unknown_option`, `call.flat_tags`, `call.bad_threshold`, `call.unknown_label`, before anything
            is tagged.
    """
    decoder = decoder_of(model.config, decoder)
    threshold = model.config.threshold if threshold is None else threshold
    threshold_vector(threshold, model.config.labels)
    return _predicted(model, sentences, decoder, threshold)


def _predicted(model: Tagger, sentences: Iterable[Sentence], decoder: str, threshold: Threshold) -> Iterator[Predicted]:
    for batch in document_batches(sentences, SENTENCES_A_CALL):
        windows = pack_annotated(batch, model.packer, model.config.context)
        chosen, low = [Candidates.empty()], [Candidates.empty()]
        for scored in model.score_batches(windows):
            chosen.append(model.candidates(scored, threshold)[0])
            low.append(model.candidates(scored, FLOOR)[0])
        found = _by_sentence(Candidates.concatenate(chosen), decoder, model.config.labels, len(batch))
        lowered = _by_sentence(Candidates.concatenate(low), decoder, model.config.labels, len(batch))
        for sentence, predictions, others in zip(batch, found, lowered, strict=True):
            yield Predicted(sentence, predictions, others)


def _by_sentence(candidates: Candidates, decoder: str, labels: list[str], n_sentences: int) -> list[dict[Span, float]]:
    """Decode candidates and return the entities of each sentence (numbered from 0) with their scores."""
    decoded = decode(candidates, decoder)
    entities = [
        (Span(start, end, labels[label]), score)
        for start, end, label, score in zip(
            decoded.word_start.tolist(),
            decoded.word_end.tolist(),
            decoded.label.tolist(),
            decoded.score.tolist(),
            strict=True,
        )
    ]
    edges = np.searchsorted(decoded.sentence, np.arange(n_sentences + 1)).tolist()
    return [dict(entities[edges[number] : edges[number + 1]]) for number in range(n_sentences)]

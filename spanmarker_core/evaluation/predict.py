"""Runs a model over annotated sentences once, and gives what it predicts and what it would with a lower threshold."""

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

#: Sentences that are tagged and held at once, more only where a document has more.
SENTENCES_A_CALL = 256


@dataclass(frozen=True, slots=True)
class Predicted:
    """A sentence with its predictions.

    Attributes:
        sentence: with its gold entities.
        predictions: what the model gives, each with its score, 0 to 1.
        lowered: what it would give with a threshold of `curves.FLOOR` for all labels.
    """

    sentence: Sentence
    predictions: dict[Span, float]
    lowered: dict[Span, float]


def predict(
    model: Tagger, sentences: Iterable[Sentence], *, decoder: str | None = None, threshold: Threshold = None
) -> Iterator[Predicted]:
    """Tag annotated sentences with the bundle's context policy, each window once, and yield each with its predictions.

    The predictions are those of `Tagger.tag_words`, and `lowered` are those that it gives with `threshold=FLOOR`.

    Args:
        model: a loaded model.
        sentences: the sentences of a document next to each other, in order. Streamed.
        decoder, threshold: as in `Tagger.tag_words`.

    Raises:
        CoreError: `call.unknown_option`, `call.flat_tags`, `call.bad_threshold`, before anything is tagged.
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
    """Decode and return the entities of each sentence with their scores; sentences count from 0."""
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

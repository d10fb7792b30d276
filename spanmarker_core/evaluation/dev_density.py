"""Measurement of a model's entity density on its dev data, for the bundle."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from spanmarker_core.bundle.config import describe_gate
from spanmarker_core.data import Sentence
from spanmarker_core.data.batches import document_batches
from spanmarker_core.evaluation.density import DevDensity, dev_density
from spanmarker_core.inference.tagger import Tagger

_SENTENCES_A_CALL = 256


def measure_density(tagger: Tagger, sentences: Iterable[Sentence]) -> DevDensity | None:
    """Tag dev data as running text, as `spanmarker tag` does with a corpus, and measure the density of entities.

    The words of each sentence are joined by spaces and split again by the bundle's splitter, because the density of a
    corpus is measured in those words. Of the annotations, only their presence matters.

    Args:
        tagger: a tagger with the decoder, threshold and gate of its bundle.
        sentences: annotated sentences, grouped by document and in order. They are streamed.

    Returns:
        The density; None if the data are too small for a band (fewer than two blocks of 1,000 words, or no entities).
    """
    config = tagger.config
    return dev_density(
        _counts(tagger, sentences),
        decoder=config.decoder,
        threshold=str(config.threshold),
        gate=describe_gate(tagger.gate_threshold),
    )


def _counts(tagger: Tagger, sentences: Iterable[Sentence]) -> Iterator[tuple[int, int, int]]:
    """Yield the number of words, of entities found and of annotated entities of each sentence."""
    for batch in document_batches(sentences, _SENTENCES_A_CALL):
        annotated = iter([len(sentence.entities) for sentence in batch])
        documents = [
            [" ".join(sentence.words) for sentence in document]
            for _, document in groupby(batch, key=lambda sentence: sentence.document_id)
        ]
        tagged = tagger.tag_text(
            [" ".join(texts) for texts in documents], sentences=[_bounds(texts) for texts in documents]
        )
        for texts, entities in zip(documents, tagged, strict=True):
            found = [0] * len(texts)
            for entity in entities:
                found[entity.sentence] += 1
            n_words = [len(encoded.word_char_start) for encoded in tagger.packer.encode_texts(texts)]
            yield from zip(n_words, found, annotated, strict=False)  # `annotated` continues in the next document


def _bounds(texts: list[str]) -> list[tuple[int, int]]:
    """Return the bounds of texts joined by spaces, in code points.

    >>> _bounds(["Ada ran .", "So ?"])
    [(0, 9), (10, 14)]
    """
    starts = [0]
    for text in texts:
        starts.append(starts[-1] + len(text) + 1)
    return [(start, start + len(text)) for start, text in zip(starts, texts, strict=False)]

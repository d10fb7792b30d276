"""Measures the density of a model's entities in its dev data, for the bundle."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from spanmarker_core.bundle.config import describe_gate
from spanmarker_core.data import Sentence
from spanmarker_core.data.batches import document_batches
from spanmarker_core.evaluation.density import DevDensity, dev_density
from spanmarker_core.inference.tagger import Tagger

_SENTENCES_A_CALL = 256


def measure_density(tagger: Tagger, sentences: Iterable[Sentence]) -> DevDensity | None:
    """Tag dev data as running text, which is how `spanmarker tag` sees a corpus, and return what was found in it.

    Words of a sentence are joined by blanks and cut anew by the bundle's splitter, since it is its words that the
    density of a corpus is told in. Of the annotations it matters only whether there are any.

    Args:
        tagger: with the decoder, threshold and gate of its bundle.
        sentences: those of a document next to each other, in order. Streamed.

    Returns:
        None where there is too little to have a band, see `density.dev_density`.
    """
    config = tagger.config
    return dev_density(
        _counts(tagger, sentences),
        decoder=config.decoder,
        threshold=str(config.threshold),
        gate=describe_gate(tagger.gate_threshold),
    )


def _counts(tagger: Tagger, sentences: Iterable[Sentence]) -> Iterator[tuple[int, int, int]]:
    """Yield the words, the entities found and the entities annotated of each sentence."""
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
            yield from zip(n_words, found, annotated, strict=False)  # the latter goes on in the next document


def _bounds(texts: list[str]) -> list[tuple[int, int]]:
    """Return where texts lie that are joined by blanks, in code points.

    >>> _bounds(["Ada ran .", "So ?"])
    [(0, 9), (10, 14)]
    """
    starts = [0]
    for text in texts:
        starts.append(starts[-1] + len(text) + 1)
    return [(start, start + len(text)) for start, text in zip(starts, texts, strict=False)]

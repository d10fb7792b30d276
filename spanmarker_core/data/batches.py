"""Batches of annotated sentences that never divide a document."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from spanmarker_core.data.records import Sentence


def count_words(sentences: Iterable[Sentence]) -> int:
    """Return the number of words in sentences.

    Args:
        sentences: the sentences.
    """
    return sum(len(sentence.words) for sentence in sentences)


def document_batches(sentences: Iterable[Sentence], at_least: int) -> Iterator[list[Sentence]]:
    """Yield lists of whole documents.

    Args:
        sentences: annotated sentences, with those of a document next to each other.
        at_least: minimum number of sentences per list; the last one may have fewer.
    """
    batch: list[Sentence] = []
    for _, document in groupby(sentences, key=lambda sentence: sentence.document_id):
        batch.extend(document)
        if len(batch) >= at_least:
            yield batch
            batch = []
    if batch:
        yield batch

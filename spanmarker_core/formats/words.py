"""Sentences and words of documents: splitting, and conversion of entities to ranges of words."""

from dataclasses import replace

import numpy as np

from spanmarker_core.data.records import Sentence
from spanmarker_core.formats.document import AnnotatedDocument, AnnotatedEntity, AnnotatedSentence
from spanmarker_core.text.alignment import words_of_range
from spanmarker_core.text.sentences import split_sentences
from spanmarker_core.text.tag_schemes import Span
from spanmarker_core.text.words import split_words


def with_words(document: AnnotatedDocument, language: str = "en") -> AnnotatedDocument:
    """Return a document with sentences and words, which are those of `words.v1` if it has none.

    Args:
        document: the document.
        language: ISO 639 code of the text, for the sentence splitter.

    Raises:
        CoreError: `library.panicked`.
    """
    if document.sentences is not None:
        return document
    sentences = []
    for start, end in split_sentences(document.text, language):
        word_starts, word_ends = split_words(document.text[start:end])
        words = list(zip((word_starts + start).tolist(), (word_ends + start).tolist(), strict=True))
        sentences.append(AnnotatedSentence(start, end, words))
    return replace(document, sentences=sentences)


def word_sentences(document: AnnotatedDocument) -> tuple[list[Sentence], list[tuple[AnnotatedEntity, str]]]:
    """Return the sentences of a document with their entities as ranges of words.

    Args:
        document: a document with sentences.

    Returns:
        The sentences, numbered from 0 in order, and each entity that none of them can hold, with the reason:
        "misaligned" if it does not begin and end with a word, or "crosses_sentences".
    """
    sentences = document.sentences or []
    bounds = [word for sentence in sentences for word in sentence.words]
    starts, ends = np.array(bounds, np.int64).reshape(-1, 2).T
    offsets = np.cumsum([0, *(len(sentence.words) for sentence in sentences)])
    made = [
        Sentence(document.document_id, number, [document.text[start:end] for start, end in sentence.words], [])
        for number, sentence in enumerate(sentences)
    ]
    problems = []
    for entity in document.entities:
        words = words_of_range(starts, ends, entity.char_start, entity.char_end)
        if not (words.begins and words.ends):
            problems.append((entity, "misaligned"))
            continue
        row, last_row = (int(np.searchsorted(offsets, word, "right")) - 1 for word in (words.first, words.last))
        if row != last_row:
            problems.append((entity, "crosses_sentences"))
            continue
        offset = int(offsets[row])
        made[row].entities.append(Span(words.first - offset, words.last + 1 - offset, entity.label))
    return made, problems

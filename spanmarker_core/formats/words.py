"""Sentences and words of documents: splitting, and conversion of entities to ranges of words."""

from dataclasses import replace

from spanmarker_core.data.records import Sentence
from spanmarker_core.formats.document import AnnotatedDocument, AnnotatedEntity, AnnotatedSentence
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
    made = [
        Sentence(document.document_id, number, [document.text[start:end] for start, end in sentence.words], [])
        for number, sentence in enumerate(sentences)
    ]
    if not document.entities:
        return made, []
    # Sentence and number of the word that begins or ends at a character.
    words = [(word, (row, place)) for row, each in enumerate(sentences) for place, word in enumerate(each.words)]
    begins, ends = {word[0]: at for word, at in words}, {word[1]: at for word, at in words}
    problems = []
    for entity in document.entities:
        first, last = begins.get(entity.char_start), ends.get(entity.char_end)
        if first is None or last is None:
            problems.append((entity, "misaligned"))
        elif first[0] != last[0]:
            problems.append((entity, "crosses_sentences"))
        else:
            made[first[0]].entities.append(Span(first[1], last[1] + 1, entity.label))
    return made, problems

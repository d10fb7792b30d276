"""Validation of a caller's input before any work."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from spanmarker_core.errors import CoreError

Item = TypeVar("Item")


def validate_texts(texts: Iterable[str]) -> list[str]:
    """Return the texts of a call of `tag_text` as a list.

    Args:
        texts: the value to check.

    Raises:
        CoreError: `call.not_a_list`, `call.not_text`, `call.half_a_character`.
    """
    texts = _list_of(texts, "tag_text", "texts")
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise CoreError("call.not_text", index=index, kind=type(text).__name__)
        _check_characters("text", index, text)
    return texts


def validate_words(sentences: Iterable[Sequence[str]]) -> list[Sequence[str]]:
    """Return the sentences of a call of `tag_words` as a list.

    Args:
        sentences: the value to check.

    Raises:
        CoreError: `call.not_a_list`, `call.not_words`, `call.half_a_character`.
    """
    sentences = _list_of(sentences, "tag_words", "sentences")
    for index, words in enumerate(sentences):
        if not isinstance(words, list | tuple):
            raise CoreError("call.not_words", index=index, kind=type(words).__name__)
        for word in words:
            if not isinstance(word, str):
                raise CoreError("call.not_words", index=index, kind=f"a list with {type(word).__name__}")
        _check_characters("sentence", index, *words)
    return sentences


def check_bounds(sentences: Sequence[Sequence[tuple[int, int]]], texts: Sequence[str]) -> None:
    """Check that sentences are consecutive ranges within their texts.

    Args:
        sentences: half-open (char_start, char_end) of each sentence, for each text.
        texts: the texts.

    Raises:
        CoreError: `call.sentences_differ`, `call.bad_sentences`.
    """
    if len(sentences) != len(texts):
        raise CoreError("call.sentences_differ", found=len(sentences), expected=len(texts))
    for index, (bounds, text) in enumerate(zip(sentences, texts, strict=True)):
        edges = [edge for bound in bounds for edge in bound]
        if [0, *edges, len(text)] != sorted([0, *edges, len(text)]):
            raise CoreError("call.bad_sentences", index=index, found=list(bounds)[:5], limit=len(text))


def documents(
    n_sentences: int, document_ids: Sequence[object] | None, sentence_ids: Sequence[int] | None
) -> list[list[int]]:
    """Return the indices of the sentences of each document, in reading order.

    Args:
        n_sentences: number of sentences.
        document_ids: document of each sentence; None makes each sentence its own document.
        sentence_ids: position of each sentence in its document; None for the given order.
    """
    if document_ids is None:
        return [[index] for index in range(n_sentences)]
    members: dict[object, list[int]] = {}
    for index, document in enumerate(document_ids):
        members.setdefault(document, []).append(index)
    if sentence_ids is not None:
        for document in members.values():
            document.sort(key=lambda index: sentence_ids[index])
    return list(members.values())


def _list_of(values: Iterable[Item], call: str, items: str) -> list[Item]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise CoreError("call.not_a_list", call=call, items=items, kind=type(values).__name__)
    return list(values)


def _check_characters(what: str, index: int, *texts: str) -> None:
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            unit = ord(text[error.start])
            raise CoreError("call.half_a_character", what=what, index=index, unit=unit) from error

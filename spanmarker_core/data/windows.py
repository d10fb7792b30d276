"""Packing of annotated sentences into windows."""

from collections.abc import Iterable
from itertools import groupby

from spanmarker_core.data import Sentence
from spanmarker_core.data.batches import document_batches
from spanmarker_core.windows.packer import Context, Packer, Windows

_PACK_SENTENCES = 2000


def pack_annotated(sentences: Iterable[Sentence], packer: Packer, context: Context) -> Windows:
    """Pack annotated sentences into windows; `word_sentence` is the position of a sentence in the input, from 0.

    Args:
        sentences: annotated sentences, with those of a document next to each other; at least one.
        packer: the model's packer.
        context: the context policy.
    """
    parts: list[Windows] = []
    number = 0
    for batch in document_batches(sentences, _PACK_SENTENCES):
        encoded = packer.encode_words([sentence.words for sentence in batch])
        for _, places in groupby(range(len(batch)), key=lambda place: batch[place].document_id):
            members = list(places)
            numbers = [number + place for place in members]
            parts.append(packer.pack([encoded[place] for place in members], context, sentence_ids=numbers))
        number += len(batch)
    return Windows.concatenate(parts)

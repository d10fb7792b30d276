"""Sentences -> samples: windows of subword tokens, with the position of each word in the document.

With context `document` a window of a long document is far larger than the sentence that it tags: 1 MB of short
lines becomes hundreds of MB of windows. Sentences are therefore encoded once, which is compact. Their windows are
planned first and made on demand, in chunks of bounded size.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.processes.isolated import isolate
from pipelines.stages.samples import Samples, document_edges, text_bounds
from spanmarker_core.windows.encoded import EncodedSentence, EncodedSentences
from spanmarker_core.windows.packer import Context, Packer, Windows
from spanmarker_core.windows.plan import Plan

#: Approximate size of a chunk of windows, in bytes. A sentence is not divided: one of several megabytes may exceed it.
MAX_RUN_BYTES = 16 << 20
#: Bytes of text per call of the tokenizer: its results take roughly a hundred times as much until they are packed.
_MAX_ENCODE_BYTES = 256 << 10
# Bytes per token, word and window: their arrays, and the columns of SAMPLES that may be made from these.
_TOKEN_BYTES, _WORD_BYTES, _WINDOW_BYTES = 4, 80, 512


@dataclass(frozen=True, slots=True)
class Encoded:
    """SENTENCES rows and their tokens, at 4 bytes per token and 25 per word.

    Attributes:
        rows: SENTENCES rows, whole documents, each document's rows together and in order.
        sentences: the encoded rows, one per row.
    """

    rows: pa.RecordBatch
    sentences: EncodedSentences


@dataclass(frozen=True, slots=True)
class WindowChunk:
    """Windows of consecutive sentences of a batch.

    Attributes:
        samples: the windows. All windows of a sentence are in one chunk, and so are all sentences of a window.
            `windows.document` numbers the documents of the batch that have sentences.
        failures: errors of documents that lack windows here, by document id.
        last: whether this is the batch's last chunk.
    """

    samples: Samples
    failures: dict[str, Exception]
    last: bool


def encode(sentences: pa.RecordBatch, packer: Packer) -> Encoded:
    """Encode sentences.

    Args:
        sentences: SENTENCES rows, whole documents, each document's rows together and in order.
        packer: the packer that encodes them.
    """
    texts = sentences["text"]
    cuts = _cuts(pc.binary_length(texts).to_numpy(), _MAX_ENCODE_BYTES)
    chunks = (packer.encode_texts(texts.slice(start, end - start).to_pylist()) for start, end in cuts)
    return Encoded(sentences, EncodedSentences.join(chunks))


def encode_words(sentences: pa.RecordBatch, words: Sequence[Sequence[str]], packer: Packer) -> Encoded:
    """Encode sentences that are given as words.

    Args:
        sentences: SENTENCES rows; each text is the sentence's words, with a space between two words.
        words: the words of each row.
        packer: the packer that encodes them.
    """
    cuts = _cuts(pc.binary_length(sentences["text"]).to_numpy(), _MAX_ENCODE_BYTES)
    chunks = (
        [_placed(*pair) for pair in zip(packer.encode_words(words[start:end]), words[start:end], strict=True)]
        for start, end in cuts
    )
    return Encoded(sentences, EncodedSentences.join(chunks))


def _placed(sentence: EncodedSentence, words: Sequence[str]) -> EncodedSentence:
    """Return a sentence of words with the character ranges of the words in its text."""
    lengths = np.array([len(word) for word in words], np.int64)
    ends = np.cumsum(lengths + 1) - 1
    return replace(sentence, word_char_start=ends - lengths, word_char_end=ends)


def pack_runs(
    encoded: Encoded, packer: Packer, context: Context, max_bytes: int = MAX_RUN_BYTES
) -> Iterator[WindowChunk]:
    """Yield the windows of sentences in chunks of bounded size; at least one chunk, possibly empty.

    The samples are the same as those of `pack`, wherever the chunks are cut: windows are planned and numbered over
    whole documents.

    Args:
        encoded: the sentences.
        packer: the packer that encoded them.
        context: the text that a window shows around its sentence.
        max_bytes: approximate size of a chunk, in bytes.
    """
    edges = document_edges(encoded.rows["document_id"])
    plan = packer.plan(encoded.sentences.token_offsets, edges, context)
    cuts = list(_cuts(_costs(encoded.sentences, plan, packer), max_bytes)) or [(0, 0)]
    reached = (-1, 0)
    for number, (first, last) in enumerate(cuts):
        samples, failures, reached = _run(encoded, packer, plan[first:last], edges, reached)
        yield WindowChunk(samples, failures, last=number == len(cuts) - 1)
        del samples, failures  # otherwise they would be kept alive while the next chunk is made


def pack(sentences: pa.RecordBatch, packer: Packer, context: Context) -> Samples:
    """Pack sentences into windows, all at once. Only for texts known to be short; `pack_runs` bounds the memory.

    Args:
        sentences: SENTENCES rows, whole documents, each document's rows together and in order.
        packer: the bundle's packer.
        context: the text that a window shows around its sentence.
    """
    runs = list(pack_runs(encode(sentences, packer), packer, context))
    for run in runs:
        for failure in run.failures.values():
            raise failure
    return Samples.concatenate([run.samples for run in runs])


def _costs(sentences: EncodedSentences, plan: Plan, packer: Packer) -> np.ndarray:
    """Return the approximate bytes of each window of a plan; for a window that will be cut, of all its pieces."""
    tokens = plan.token_end - plan.token_start
    words = sentences.word_offsets[plan.sentence_end] - sentences.word_offsets[plan.sentence_start]
    return tokens * _TOKEN_BYTES + words * _WORD_BYTES + (1 + tokens // packer.capacity) * _WINDOW_BYTES


def _cuts(costs: np.ndarray, limit: int) -> Iterator[tuple[int, int]]:
    """Yield the [start, end) of ranges that cost at most `limit` or hold one item.

    >>> list(_cuts(np.array([2, 2, 9, 1]), 4))
    [(0, 2), (2, 3), (3, 4)]
    """
    running = np.cumsum(costs)
    start = spent = 0
    while start < len(costs):
        end = max(start + 1, int(np.searchsorted(running, spent + limit, "right")))
        yield start, end
        start, spent = end, int(running[end - 1])


def _run(
    encoded: Encoded, packer: Packer, plan: Plan, edges: np.ndarray, reached: tuple[int, int]
) -> tuple[Samples, dict[str, Exception], tuple[int, int]]:
    """Make the windows of a part of a plan.

    Args:
        encoded: the sentences.
        packer: the packer that encoded them.
        plan: the part of the plan.
        edges: the row at which each document begins.
        reached: index of the last document with windows, and its number of windows so far.

    Returns:
        The samples, errors by document id, and the new value of `reached`.
    """
    ids = encoded.rows["document_id"]
    documents = np.unique(plan.document)

    def work(start: int, end: int) -> tuple[Windows, list[str]]:
        first, last = np.searchsorted(plan.document, [documents[start], documents[end - 1] + 1])
        return _windows(encoded, packer, plan[first:last])

    parts: list[Samples] = []
    failures: dict[str, Exception] = {}
    for start, _, outcome in isolate(len(documents), work):
        if isinstance(outcome, Exception):
            failures[ids[edges[documents[start]]].as_py()] = outcome
            continue
        windows, texts = outcome
        document = windows.document
        window_ids = np.arange(len(windows)) - np.searchsorted(document, document)
        window_ids[document == reached[0]] += reached[1]
        if len(windows):
            reached = int(document[-1]), int(window_ids[-1]) + 1
        parts.append(Samples(windows, ids.take(pa.array(edges[document])), window_ids.astype(np.int32), texts))
    return Samples.concatenate(parts), failures, reached


def _windows(encoded: Encoded, packer: Packer, plan: Plan) -> tuple[Windows, list[str]]:
    """Return the windows of a part of a plan, and the text of each."""
    rows = encoded.rows
    char_starts = rows["char_start"].to_numpy()
    windows = packer.windows(encoded.sentences, plan, sentence_ids=np.arange(len(rows)), char_starts=char_starts)
    texts = _texts(rows, windows)
    return replace(windows, word_sentence=rows["sentence_id"].to_numpy()[windows.word_sentence]), texts


def _texts(rows: pa.RecordBatch, windows: Windows) -> list[str]:
    """Return the text spanned by the words of each window.

    `word_sentence` is the index of a word's sentence in `rows`.

    The text is rebuilt from the sentences, not cut from the document, so that comparing an entity's text with the
    document's characters (`DocumentBatch.checked_annotations`) is an independent check of every offset on the way. It
    also makes samples complete without their documents.

    The text ends with the window's words, because a sentence of several megabytes has thousands of windows. The
    characters between two sentences, which are missing from the rows' texts, become spaces.
    """
    if len(windows) == 0:
        return []
    first, last = (windows.word_sentence[at] for at in (windows.word_offsets[:-1], windows.word_offsets[1:] - 1))
    lowest, highest = int(first[0]), int(last[-1]) + 1
    rows = rows.slice(lowest, highest - lowest)
    sentences, starts = rows["text"].to_pylist(), rows["char_start"].to_numpy()
    gaps = np.append(0, starts[1:] - rows["char_end"].to_numpy()[:-1]).tolist()
    begins, ends = ((bound - starts[first - lowest]).tolist() for bound in text_bounds(windows))
    texts = []
    for here, stop, begin, end in zip((first - lowest).tolist(), (last - lowest).tolist(), begins, ends, strict=True):
        pieces = [sentences[here]]
        for row in range(here + 1, stop + 1):
            pieces += [" " * gaps[row], sentences[row]]
        texts.append("".join(pieces)[begin:end])
    return texts

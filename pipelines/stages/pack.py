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

from schemas import SAMPLES
from spanmarker_core.windows.encoded import EncodedSentence, EncodedSentences
from spanmarker_core.windows.packer import Context, Packer, Windows
from spanmarker_core.windows.plan import Plan

#: Approximate size of a chunk of windows, in bytes. A sentence is not divided: one of several megabytes may exceed it.
MAX_RUN_BYTES = 16 << 20
#: Bytes of text per call of the tokenizer: its results take roughly a hundred times as much until they are packed.
_MAX_ENCODE_BYTES = 256 << 10
# Bytes per token, word and window: their columns of SAMPLES, and the arrays from which the columns are made.
_TOKEN_BYTES, _WORD_BYTES, _WINDOW_BYTES = 4, 80, 512

WORD_COLUMNS = tuple(name for name in SAMPLES.schema.names if name.startswith("word_"))


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
        samples: SAMPLES rows. All windows of a sentence are in one chunk, and so are all sentences of a window.
        failures: errors of documents that lack windows here, by document id.
        last: whether this is the batch's last chunk.
    """

    samples: pa.RecordBatch
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

    The rows are the same as those of `pack`, wherever the chunks are cut: windows are planned and numbered over
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


def pack(sentences: pa.RecordBatch, packer: Packer, context: Context) -> pa.RecordBatch:
    """Pack sentences into windows, all at once. Only for texts known to be short; `pack_runs` bounds the memory.

    Args:
        sentences: SENTENCES rows, whole documents, each document's rows together and in order.
        packer: the bundle's packer.
        context: the text that a window shows around its sentence.

    Returns:
        SAMPLES rows, each document's together, in order.
    """
    runs = list(pack_runs(encode(sentences, packer), packer, context))
    for run in runs:
        for failure in run.failures.values():
            raise failure
    return pa.concat_batches([run.samples for run in runs])


def document_edges(ids: pa.Array) -> np.ndarray:
    """Return the row at which each document begins, and the number of rows.

    Args:
        ids: the document id of each row; the rows of a document are together.

    >>> document_edges(pa.array(["a", "a", "b"])).tolist()
    [0, 2, 3]
    """
    if len(ids) == 0:
        return np.zeros(1, np.int64)
    new = pc.not_equal(ids.slice(1), ids.slice(0, len(ids) - 1)).to_numpy(zero_copy_only=False)
    return np.concatenate([[0], np.flatnonzero(new) + 1, [len(ids)]])


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
) -> tuple[pa.RecordBatch, dict[str, Exception], tuple[int, int]]:
    """Make the windows of a part of a plan.

    Args:
        encoded: the sentences.
        packer: the packer that encoded them.
        plan: the part of the plan.
        edges: the row at which each document begins.
        reached: index of the last document with windows, and its number of windows so far.

    Returns:
        SAMPLES rows, errors by document id, and the new value of `reached`.
    """
    ids = encoded.rows["document_id"]
    parts, faults = _parts(encoded, packer, plan)
    batches = []
    for windows, texts in parts:
        document = windows.document
        window_ids = np.arange(len(windows)) - np.searchsorted(document, document)
        window_ids[document == reached[0]] += reached[1]
        if len(windows):
            reached = int(document[-1]), int(window_ids[-1]) + 1
        batches.append(_samples(ids.take(pa.array(edges[document])), window_ids, windows, texts))
    failures = {ids[edges[document]].as_py(): error for document, error in faults.items()}
    # Concatenation copies, even with a single batch.
    samples = batches[0] if len(batches) == 1 else pa.concat_batches([SAMPLES.empty(), *batches])
    return samples, failures, reached


def _parts(
    encoded: Encoded, packer: Packer, plan: Plan
) -> tuple[list[tuple[Windows, list[str]]], dict[int, Exception]]:
    """Return the windows of a part of a plan with their texts, and the errors by document.

    If packing all documents fails, each half is tried, until the failing documents are alone.
    """
    try:
        return [_windows(encoded, packer, plan)], {}
    except Exception as error:
        first, last = int(plan.document[0]), int(plan.document[-1])
        if first == last:
            return [], {first: error}
        middle = int(np.searchsorted(plan.document, (first + last + 1) // 2))
        halves = [_parts(encoded, packer, half) for half in (plan[:middle], plan[middle:])]
        return halves[0][0] + halves[1][0], halves[0][1] | halves[1][1]


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

    The text ends with the window's words, because a sentence of several megabytes has thousands of windows. The
    characters between two sentences, which are missing from the rows' texts, become spaces.
    """
    if len(windows) == 0:
        return []
    first, last = (windows.word_sentence[at] for at in _edge_words(windows))
    lowest, highest = int(first[0]), int(last[-1]) + 1
    rows = rows.slice(lowest, highest - lowest)
    sentences, starts = rows["text"].to_pylist(), rows["char_start"].to_numpy()
    gaps = np.append(0, starts[1:] - rows["char_end"].to_numpy()[:-1]).tolist()
    begins, ends = ((bound - starts[first - lowest]).tolist() for bound in _text_bounds(windows))
    texts = []
    for here, stop, begin, end in zip((first - lowest).tolist(), (last - lowest).tolist(), begins, ends, strict=True):
        pieces = [sentences[here]]
        for row in range(here + 1, stop + 1):
            pieces += [" " * gaps[row], sentences[row]]
        texts.append("".join(pieces)[begin:end])
    return texts


def _samples(document_ids: pa.Array, window_ids: np.ndarray, windows: Windows, texts: list[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            document_ids,
            pa.array(window_ids.astype(np.int32)),
            pa.array(texts, pa.large_string()),
            pa.array(_text_bounds(windows)[0]),
            _lists(windows.token_offsets, windows.token_ids),
            *(_lists(windows.word_offsets, getattr(windows, name)) for name in WORD_COLUMNS),
        ],
        schema=SAMPLES.schema,
    )


def _edge_words(windows: Windows) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and the last word of each window."""
    return windows.word_offsets[:-1], windows.word_offsets[1:] - 1


def _text_bounds(windows: Windows) -> tuple[np.ndarray, np.ndarray]:
    """Return the character at which each window's first word begins, and the one at which its last word ends."""
    first, last = _edge_words(windows)
    return windows.word_char_start[first], windows.word_char_end[last]


def _lists(offsets: np.ndarray, values: np.ndarray) -> pa.LargeListArray:
    item = pa.field("item", pa.from_numpy_dtype(values.dtype), nullable=False)
    return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(values), type=pa.large_list(item))

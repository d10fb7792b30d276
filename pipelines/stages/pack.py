"""Sentences -> samples: windows of subword tokens with their words' places in the document.

With document context a window is far larger than the sentence that it tags: 1 MB of short lines becomes
hundreds of MB of windows. So sentences are encoded once and stay small; their windows are made in runs
of bounded size, each when it is asked for.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas import SAMPLES
from spanmarker_core.ragged import ragged_offsets
from spanmarker_core.windows import Context, EncodedSentence, Packer, Surroundings, Windows

#: About what the windows of a run take, in bytes. A sentence isn't divided: one of megabytes takes what it needs.
MAX_RUN_BYTES = 16 << 20
#: Bytes of text that the tokenizer gets at once: its results take about a hundred times as much until they are packed.
_MAX_ENCODE_BYTES = 256 << 10
# What a token, a word and a window take: their columns of SAMPLES; for a window, arrays of its own until it has joined
# the others.
_TOKEN_BYTES, _WORD_BYTES, _WINDOW_BYTES = 4, 34, 1536

WORD_COLUMNS = tuple(name for name in SAMPLES.schema.names if name.startswith("word_"))


@dataclass(frozen=True, slots=True)
class Encoded:
    """SENTENCES rows and their tokens, 4 bytes a token and 25 a word.

    Attributes:
        rows: SENTENCES rows, whole documents, each document's rows together and in order.
        flat: the arrays of all sentences end to end; what they say still counts from their own sentence.
        token_offsets, word_offsets: int64 [n + 1]; where each sentence begins in `flat`.
    """

    rows: pa.RecordBatch
    flat: EncodedSentence
    token_offsets: np.ndarray
    word_offsets: np.ndarray

    def sentence(self, row: int) -> EncodedSentence:
        """Return one sentence, without a copy."""
        tokens = slice(self.token_offsets[row], self.token_offsets[row + 1])
        words = slice(self.word_offsets[row], self.word_offsets[row + 1])
        flat = self.flat
        return EncodedSentence(
            token_ids=flat.token_ids[tokens],
            word_token_start=flat.word_token_start[words],
            word_token_end=flat.word_token_end[words],
            word_char_start=flat.word_char_start[words],
            word_char_end=flat.word_char_end[words],
            long_words=flat.long_words[words],
        )


@dataclass(frozen=True, slots=True)
class Run:
    """Windows of consecutive sentences of a batch.

    Attributes:
        samples: SAMPLES rows; all windows of a sentence are in one run.
        failures: what went wrong with documents that have no windows here though they should, by id.
        last: whether it is the batch's last run.
    """

    samples: pa.RecordBatch
    failures: dict[str, Exception]
    last: bool


def encode(sentences: pa.RecordBatch, packer: Packer) -> Encoded:
    """Encode SENTENCES rows: whole documents, each document's rows together and in order."""
    empty = [np.zeros(0, kind) for kind in (np.int32, np.int32, np.int32, np.int64, np.int64, np.bool_)]
    parts, n_tokens, n_words = [EncodedSentence(*empty)], [], []
    texts = sentences["text"]
    for start, end in _cuts(pc.binary_length(texts).to_numpy(), _MAX_ENCODE_BYTES):
        encoded = packer.encode_texts(texts.slice(start, end - start).to_pylist())
        n_tokens += [len(sentence.token_ids) for sentence in encoded]
        n_words += [len(sentence.word_token_start) for sentence in encoded]
        parts.append(_joined(encoded))
    offsets = (ragged_offsets(np.array(lengths, np.int64)) for lengths in (n_tokens, n_words))
    return Encoded(sentences, _joined(parts), *offsets)


def pack_runs(encoded: Encoded, packer: Packer, context: Context, max_bytes: int = MAX_RUN_BYTES) -> Iterator[Run]:
    """Yield the windows of sentences in runs of about `max_bytes`; at least one run, if an empty one.

    The rows are those of `pack`, wherever the runs are cut: context comes from the whole document, and
    windows are numbered over the whole document.
    """
    edges = document_edges(encoded.rows["document_id"])
    cuts = list(_cuts(_costs(encoded, edges, packer, context), max_bytes)) or [(0, 0)]
    numbered = 0
    for number, (first, last) in enumerate(cuts):
        parts: list[_Part] = []
        failures = {}
        for document in range(np.searchsorted(edges, first, "right") - 1, np.searchsorted(edges, last, "left")):
            begin, end = int(edges[document]), int(edges[document + 1])
            document_id = encoded.rows["document_id"][begin].as_py()
            if begin >= first:
                numbered = 0
            try:
                part = _pack_part(encoded, packer, context, begin, end, max(begin, first), min(end, last))
            except Exception as error:
                failures[document_id] = error
                continue
            parts.append(_Part(document_id, numbered, *part))
            numbered += len(parts[-1].windows)
        yield Run(_samples(parts), failures, last=number == len(cuts) - 1)


def pack(sentences: pa.RecordBatch, packer: Packer, context: Context) -> pa.RecordBatch:
    """Pack sentences into windows, all at once: for texts that are known to be short, see `pack_runs`.

    Args:
        sentences: SENTENCES rows, whole documents, each document's rows together and in order.
        packer: the bundle's packer.
        context: what a window shows around its sentence.

    Returns:
        SAMPLES rows, each document's together, in order.
    """
    runs = list(pack_runs(encode(sentences, packer), packer, context))
    for run in runs:
        for failure in run.failures.values():
            raise failure
    return pa.concat_batches([run.samples for run in runs])


def document_edges(ids: pa.Array) -> np.ndarray:
    """Return where each document begins among rows that have these ids, and the number of rows.

    >>> document_edges(pa.array(["a", "a", "b"])).tolist()
    [0, 2, 3]
    """
    if len(ids) == 0:
        return np.zeros(1, np.int64)
    new = pc.not_equal(ids.slice(1), ids.slice(0, len(ids) - 1)).to_numpy(zero_copy_only=False)
    return np.concatenate([[0], np.flatnonzero(new) + 1, [len(ids)]])


def _costs(encoded: Encoded, edges: np.ndarray, packer: Packer, context: Context) -> np.ndarray:
    """Return about how many bytes the windows of each sentence take."""
    tokens = np.diff(encoded.token_offsets)
    if context.policy == "document":
        of_document = np.repeat(np.diff(encoded.token_offsets[edges]), np.diff(edges))
        tokens = np.maximum(tokens, np.minimum(of_document, packer.capacity))
    return tokens * _TOKEN_BYTES + np.diff(encoded.word_offsets) * _WORD_BYTES + _WINDOW_BYTES


def _cuts(costs: np.ndarray, limit: int) -> Iterator[tuple[int, int]]:
    """Yield the [start, end) of stretches that cost at most `limit`, or that are one item.

    >>> list(_cuts(np.array([2, 2, 9, 1]), 4))
    [(0, 2), (2, 3), (3, 4)]
    """
    running = np.cumsum(costs)
    start = spent = 0
    while start < len(costs):
        end = max(start + 1, int(np.searchsorted(running, spent + limit, "right")))
        yield start, end
        start, spent = end, int(running[end - 1])


def _pack_part(
    encoded: Encoded, packer: Packer, context: Context, begin: int, end: int, start: int, stop: int
) -> tuple[Windows, list[str]]:
    """Return the windows of the sentences [start, stop) of the document [begin, end), and the text of each window."""
    rows = encoded.rows.slice(start, stop - start)
    char_starts, sentence_ids = rows["char_start"].to_pylist(), rows["sentence_id"].to_numpy()
    windows = packer.pack(
        [encoded.sentence(row) for row in range(start, stop)],
        context,
        sentence_ids=sentence_ids.tolist(),
        char_starts=char_starts,
        within=Surroundings(encoded.flat.token_ids, encoded.token_offsets[begin : end + 1], start - begin),
    )
    # Only the text under a window's own words: a sentence of megabytes has thousands of windows.
    texts = rows["text"].to_pylist()
    places = np.searchsorted(sentence_ids, windows.word_sentence[windows.word_offsets[:-1]]).tolist()
    starts, ends = _text_bounds(windows)
    return windows, [
        texts[place][char_start - char_starts[place] : char_end - char_starts[place]]
        for place, char_start, char_end in zip(places, starts.tolist(), ends.tolist(), strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _Part:
    """Windows of one document, the number of the first one, the text of each."""

    document_id: str
    first: int
    windows: Windows
    texts: list[str]


def _samples(parts: list[_Part]) -> pa.RecordBatch:
    if not parts:
        return SAMPLES.empty()
    windows = Windows.concatenate([part.windows for part in parts])
    return pa.RecordBatch.from_arrays(
        [
            pa.array([part.document_id for part in parts for _ in part.texts], pa.large_string()),
            pa.array([part.first + number for part in parts for number in range(len(part.texts))], pa.int32()),
            pa.array([text for part in parts for text in part.texts], pa.large_string()),
            pa.array(_text_bounds(windows)[0]),
            _lists(windows.token_offsets, windows.token_ids),
            *(_lists(windows.word_offsets, getattr(windows, name)) for name in WORD_COLUMNS),
        ],
        schema=SAMPLES.schema,
    )


def _text_bounds(windows: Windows) -> tuple[np.ndarray, np.ndarray]:
    """Return where the first word of each window begins and its last one ends."""
    return windows.word_char_start[windows.word_offsets[:-1]], windows.word_char_end[windows.word_offsets[1:] - 1]


def _joined(parts: list[EncodedSentence]) -> EncodedSentence:
    return EncodedSentence(*(np.concatenate([getattr(part, n) for part in parts]) for n in EncodedSentence.__slots__))


def _lists(offsets: np.ndarray, values: np.ndarray) -> pa.LargeListArray:
    item = pa.field("item", pa.from_numpy_dtype(values.dtype), nullable=False)
    return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(values), type=pa.large_list(item))

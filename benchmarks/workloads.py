"""Workloads: samples of real text as sentences of words, the same for every contestant."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import numpy as np

from benchmarks.cost import Window
from spanmarker_core.bundle.reader import read_info, read_packer
from spanmarker_core.spans.candidates import Spans, candidate_spans
from spanmarker_core.text.sentences import split_sentences
from spanmarker_core.text.words import split_words
from spanmarker_core.windows.encoded import EncodedSentence
from spanmarker_core.windows.packer import Context, Packer, Windows

DATA = Path(__file__).resolve().parents[1] / "infra" / "bench" / "data"

Sentence = dict  # document_id, sentence_id, tokens and, in annotated data, entities; as in JSONL


@dataclass
class Workload:
    """Sentences to tag, and the same text in the forms for contestants that do not take words.

    Attributes:
        name: name in the results.
        context: "sentence" or "document".
        max_tokens: maximum tokens per window, including special tokens.
        sentences: `document_id` (an int), `sentence_id`, `tokens`, `entities` (empty without gold).
        windows: token ids of the windows, including special tokens; with "document" each distinct window once.
        once: token ids of every document, split into windows at sentences, without repeated tokens.
        texts: words joined by spaces, one text per window of `once`.
        left_out: number of sentences that some contestant cannot take whole; they are in no sample.
    """

    name: str
    context: str
    max_tokens: int
    sentences: list[Sentence]
    windows: list[list[int]] = field(default_factory=list)
    once: list[list[int]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    left_out: int = 0

    def write(self, path: Path) -> Path:
        """Write the workload as JSON for the workers and return the path.

        Args:
            path: path of the file.
        """
        path.write_text(json.dumps(vars(self), ensure_ascii=False), encoding="utf-8")
        return path

    @property
    def n_words(self) -> int:
        """Return the number of words of all sentences."""
        return sum(len(sentence["tokens"]) for sentence in self.sentences)


def workloads(bundle: Path, sizes: dict[str, int], sentences: int, document_sentences: int) -> Iterator[Workload]:
    """Yield the four workloads.

    Args:
        bundle: folder of a bundle whose tokenizer all contestants share.
        sizes: maximum tokens per window, for "sentence" and for "document".
        sentences: number of single sentences.
        document_sentences: approximate number of sentences in whole documents.
    """
    packer = packer_with(bundle, sizes["sentence"])
    for name, file in (("short sentences (wnut17)", "wnut17"), ("long sentences (ncbi_disease)", "ncbi_disease")):
        fitting, left_out = fitting_of(packer, read_jsonl(f"{file}/test.jsonl"))
        chosen = [[sentence] for sentence in evenly(fitting, sentences)]
        yield build(name, packer, "sentence", chosen, left_out)
    packer = packer_with(bundle, sizes["document"])
    fitting, left_out = fitting_of(packer, read_jsonl("ncbi_disease/test.jsonl"))
    whole = [members for members in by_document(fitting) if len(_grouped(packer, members)) == 1]
    count = max(1, round(document_sentences * len(whole) / max(1, sum(map(len, whole)))))
    yield build("documents (ncbi_disease)", packer, "document", evenly(whole, count), left_out)
    fitting, left_out = fitting_of(packer, speeches(max(1, document_sentences // 3)))
    yield build("speeches (us_presidents)", packer, "document", by_document(fitting), left_out)


def read_jsonl(name: str) -> list[Sentence]:
    """Read a file of the benchmark's data.

    Args:
        name: name of the file.
    """
    with open(DATA / name, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def speeches(sentences_each: int) -> list[Sentence]:
    """Return the first sentences of each speech, split into words.

    Args:
        sentences_each: number of sentences per speech.
    """
    found = []
    for document in read_jsonl("speeches/documents.jsonl"):
        text = document["text"]
        for number, (start, end) in enumerate(split_sentences(text)[: max(sentences_each, 1)]):
            sentence = text[start:end]
            words = [sentence[first:last] for first, last in zip(*split_words(sentence), strict=True)]
            found.append({"document_id": document["id"], "sentence_id": number, "tokens": words, "entities": []})
    return found


def build(name: str, packer: Packer, context: str, documents: list[list[Sentence]], left_out: int = 0) -> Workload:
    """Return a workload of documents, which are renumbered.

    Args:
        name: name of the workload.
        packer: packer for windows of the workload's size.
        context: "sentence" or "document".
        documents: the sentences of each document.
        left_out: number of sentences left out before.
    """
    taken = [
        {**sentence, "document_id": document, "sentence_id": number}
        for document, members in enumerate(documents)
        for number, sentence in enumerate(members)
    ]
    workload = Workload(name, context, packer.max_tokens, taken, left_out=left_out)
    windows = shared_windows(packer, taken, Context(context))
    workload.windows = [list(tokens) for tokens, _ in windows]
    for members in documents:
        for group in _grouped(packer, members):
            tokens = np.concatenate([packer.prefix, *(encoded.token_ids for _, encoded in group), packer.suffix])
            workload.once.append(tokens.tolist())
            workload.texts.append(" ".join(word for sentence, _ in group for word in sentence["tokens"]))
    return workload


def by_document(sentences: Iterable[Sentence]) -> list[list[Sentence]]:
    """Group adjacent sentences by their document.

    Args:
        sentences: the sentences.
    """
    return [list(members) for _, members in groupby(sentences, key=lambda sentence: sentence["document_id"])]


def fitting_of(packer: Packer, sentences: list[Sentence]) -> tuple[list[Sentence], int]:
    """Return the sentences that every contestant can take whole, and the number of the others.

    Args:
        packer: packer for windows of the workload's size.
        sentences: the sentences.
    """
    fitting = [sentence for sentence in sentences if fits(packer, sentence)]
    return fitting, len(sentences) - len(fitting)


def packer_with(bundle: Path, max_tokens: int) -> Packer:
    """Return a bundle's packer for windows of another length.

    Args:
        bundle: folder of the bundle.
        max_tokens: maximum tokens per window.
    """
    config = read_info(bundle).config
    packer = read_packer(bundle, config)
    packer.max_tokens = max_tokens
    packer.capacity = max_tokens - len(config.prefix) - len(config.suffix)
    return packer


def fits(packer: Packer, sentence: Sentence) -> bool:
    """Return whether every contestant can take a sentence whole.

    `span_marker` truncates sentences at its window, treats a word that contains a space as raw text, and puts the
    markers of words without tokens on the first token. This library does none of that, so results for such sentences
    would not be comparable.

    Args:
        packer: packer for windows of the workload's size.
        sentence: the sentence.
    """
    if not sentence["tokens"] or any(not word or " " in word for word in sentence["tokens"]):
        return False
    (encoded,) = packer.encode_words([sentence["tokens"]])
    tokens = encoded.word_token_end - encoded.word_token_start
    return len(encoded.token_ids) <= packer.capacity and not encoded.long_words.any() and bool((tokens > 0).all())


def evenly(items: list, count: int) -> list:
    """Return `count` evenly spaced items, or all.

    Args:
        items: the items.
        count: number of items.

    >>> evenly(["a", "b", "c", "d", "e", "f"], 3)
    ['a', 'c', 'e']
    """
    count = min(count, len(items))
    return [items[place * len(items) // count] for place in range(count)]


def shared_windows(packer: Packer, sentences: Iterable[Sentence], context: Context) -> list[tuple[tuple, Window]]:
    """Pack sentences; return the token ids and the counts of each window.

    With context, sentences of a document whose windows have the same tokens share one window.

    Args:
        packer: packer for windows of the workload's size.
        sentences: the sentences.
        context: context of a window.
    """
    found = []
    for members in by_document(sentences):
        windows, spans = _packed(packer, members, context)
        held: dict[object, Window] = {}
        for place in range(len(windows)):
            tokens = tuple(windows.token_ids[windows.token_offsets[place] : windows.token_offsets[place + 1]].tolist())
            rows = np.arange(spans.offsets[place], spans.offsets[place + 1])
            more = _window(len(tokens), spans, rows)
            before = held.get(tokens, Window(len(tokens), 0, 0, 0))
            held[tokens] = Window(
                len(tokens), before.spans + more.spans, before.starts + more.starts, before.ends + more.ends
            )
        found += held.items()
    return found


def own_windows(packer: Packer, sentences: Iterable[Sentence], context: Context) -> list[Window]:
    """Pack sentences; return the counts of the window of each sentence, even if windows have the same tokens.

    Args:
        packer: packer for windows of the workload's size.
        sentences: the sentences.
        context: context of a window.
    """
    found = []
    for members in by_document(sentences):
        windows, spans = _packed(packer, members, context)
        lengths = np.diff(windows.token_offsets)
        window = np.repeat(np.arange(len(windows)), np.diff(spans.offsets))
        sentence = windows.word_sentence[spans.first_word]
        for place, number in sorted(set(zip(window.tolist(), sentence.tolist(), strict=True))):
            rows = np.flatnonzero((window == place) & (sentence == number))
            found.append(_window(int(lengths[place]), spans, rows))
    return found


def _packed(packer: Packer, sentences: list[Sentence], context: Context) -> tuple[Windows, Spans]:
    encoded = packer.encode_words([sentence["tokens"] for sentence in sentences])
    windows = packer.pack(encoded, context)
    return windows, candidate_spans(windows, packer.entity_max_length)


def _window(tokens: int, spans: Spans, rows: np.ndarray) -> Window:
    return Window(tokens, len(rows), len(np.unique(spans.first_word[rows])), len(np.unique(spans.last_word[rows])))


def _grouped(packer: Packer, sentences: list[Sentence]) -> list[list[tuple[Sentence, EncodedSentence]]]:
    """Split a document into groups of consecutive sentences that fill a window, each sentence once."""
    encoded = packer.encode_words([sentence["tokens"] for sentence in sentences])
    groups: list[list[tuple[Sentence, EncodedSentence]]] = []
    room = 0
    for sentence, tokens in zip(sentences, encoded, strict=True):
        if len(tokens.token_ids) > room or not groups:
            groups.append([])
            room = packer.capacity
        groups[-1].append((sentence, tokens))
        room -= len(tokens.token_ids)
    return groups

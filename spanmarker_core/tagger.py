"""A loaded model: words or text in, entities out."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn

from spanmarker_core.batching import plan_batches
from spanmarker_core.bundle import (
    DTYPES,
    GATE_CHOICES,
    WEIGHTS,
    ModelConfig,
    gate_threshold,
    read_info,
    read_packer,
)
from spanmarker_core.decoding import Candidates, Threshold, check_decoder, decode, select_pairs, threshold_vector
from spanmarker_core.errors import CoreError, refusing, unusable
from spanmarker_core.models import architecture
from spanmarker_core.models.batch import Batch
from spanmarker_core.pretrained import not_finite
from spanmarker_core.sentences import split_sentences
from spanmarker_core.spans import Spans, candidate_spans
from spanmarker_core.windows import Context, Packer, Windows

Item = TypeVar("Item")

#: Text tokens that go through the encoder as one batch: enough for full speed, few enough to stay in the caches of a
#: CPU. A GPU has thousands of units to fill.
BATCH_TOKENS = {"cpu": 1024, "cuda": 32768}


@dataclass(frozen=True, slots=True)
class Entity:
    """One entity. Ranges are half-open.

    Attributes:
        label: its type.
        score: the model's probability of the label, 0 to 1.
        word_start, word_end: words of its sentence.
        char_start, char_end: code points of the text it came from; None for word input.
        text: the exact slice of that text; None for word input.
        sentence: number of the sentence in its text; for words, place in the list that was given.
    """

    label: str
    score: float
    word_start: int
    word_end: int
    char_start: int | None = None
    char_end: int | None = None
    text: str | None = None
    sentence: int = 0


@dataclass(frozen=True, slots=True)
class ScoredBatch:
    """What the network says of some windows.

    Attributes:
        indices: int64 [n_windows], which windows of those that were given.
        windows: these windows.
        spans: those that were scored; their words count in `windows`.
        n_candidates: spans that there are, with those that the gate turned away.
        probabilities: float32 [n_spans, n_labels].
        gate: float32 [n_words, 2], may start and may end; None for a network without a gate.
    """

    indices: np.ndarray
    windows: Windows
    spans: Spans
    n_candidates: int
    probabilities: np.ndarray
    gate: np.ndarray | None


class Tagger:
    """A model with its tokenizer, labels and decoder, ready to tag. Made by `load`.

    Attributes:
        config: the bundle's config.
        packer: encodes and packs text as the model was trained; needs no device.
        network: the torch module.
        device: where the network runs.
        dtype: one of `DTYPES`.
        gate_threshold: least probability of a span's edges; None for no gate, which scores every candidate.
        work: what was done since the model was loaded: candidate spans there were ("candidates"), those of them that
            were scored ("scored_candidates"), text tokens encoded ("tokens"), and the places that they and their
            padding took in attention ("token_places").
    """

    def __init__(
        self,
        config: ModelConfig,
        packer: Packer,
        network: nn.Module,
        device: torch.device,
        dtype: str = "float32",
        gate_threshold: float | None = None,
    ) -> None:
        self.config = config
        self.packer = packer
        self.network = network.to(device).eval()
        self.device = device
        self.dtype = dtype
        self.gate_threshold = gate_threshold
        self.work: Counter[str] = Counter()

    def tag_text(
        self,
        texts: Sequence[str],
        *,
        split: bool = True,
        language: str = "en",
        context: str | None = None,
        max_prev_context: int | None = None,
        max_next_context: int | None = None,
        decoder: str | None = None,
        threshold: Threshold = None,
    ) -> list[list[Entity]]:
        """Tag raw texts; each is one document.

        Args:
            texts: the texts. Empty ones give no entities.
            split: cut each text into sentences first; False takes each as one sentence.
            language: for the sentence splitter, such as "en" or "de".
            context: "sentence", "document" or "block"; None is as the bundle says.
            max_prev_context, max_next_context: limits for "document", in sentences; None is no limit.
                Only together with `context`.
            decoder: see `decoding.DECODERS`; None is as the bundle says.
            threshold: see `decoding`; None is as the bundle says.

        Returns:
            A list of entities a text, by position.

        Raises:
            CoreError: `call.*`, with what is wrong.
        """
        texts = _list_of(texts, "tag_text", "texts")
        for index, text in enumerate(texts):
            if not isinstance(text, str):
                raise CoreError("call.not_text", index=index, kind=type(text).__name__)
            _check_characters("text", index, text)
        policy = self._context(context, max_prev_context, max_next_context)
        parts = []
        for number, text in enumerate(texts):
            bounds = split_sentences(text, language) if split else [(0, len(text))]
            encoded = self.packer.encode_texts([text[start:end] for start, end in bounds])
            parts.append(self.packer.pack(encoded, policy, document=number, char_starts=[start for start, _ in bounds]))
        entities: list[list[Entity]] = [[] for _ in texts]
        for document, entity in self._entities(parts, decoder, threshold, texts):
            entities[document].append(entity)
        return entities

    def tag_words(
        self,
        sentences: Sequence[Sequence[str]],
        *,
        document_ids: Sequence[object] | None = None,
        sentence_ids: Sequence[int] | None = None,
        context: str | None = None,
        max_prev_context: int | None = None,
        max_next_context: int | None = None,
        decoder: str | None = None,
        threshold: Threshold = None,
    ) -> list[list[Entity]]:
        """Tag sentences that are lists of words.

        Args:
            sentences: the sentences, in any order.
            document_ids: which document each belongs to; None makes each its own document.
            sentence_ids: place of each sentence in its document; None is the order given.
            context, max_prev_context, max_next_context, decoder, threshold: as in `tag_text`.

        Returns:
            A list of entities a sentence, in the order given.

        Raises:
            CoreError: `call.*`, with what is wrong.
        """
        sentences = _list_of(sentences, "tag_words", "sentences")
        for index, words in enumerate(sentences):
            if not isinstance(words, list | tuple):
                raise CoreError("call.not_words", index=index, kind=type(words).__name__)
            for word in words:
                if not isinstance(word, str):
                    raise CoreError("call.not_words", index=index, kind=f"a list with {type(word).__name__}")
            _check_characters("sentence", index, *words)
        if sentence_ids is not None and document_ids is None:
            raise CoreError("call.ids_without_documents")
        for what, ids in (("document_ids", document_ids), ("sentence_ids", sentence_ids)):
            if ids is not None and len(ids) != len(sentences):
                raise CoreError("call.lengths_differ", what=what, found=len(ids), expected=len(sentences))
        policy = self._context(context, max_prev_context, max_next_context)
        encoded = self.packer.encode_words(sentences)
        parts = [
            # A word's sentence number is its place in the caller's list, which takes it back there.
            self.packer.pack([encoded[i] for i in members], policy, sentence_ids=members)
            for members in _documents(len(sentences), document_ids, sentence_ids)
        ]
        entities: list[list[Entity]] = [[] for _ in sentences]
        for _, entity in self._entities(parts, decoder, threshold):
            entities[entity.sentence].append(entity)
        return entities

    def score(self, windows: Windows, threshold: Threshold = None) -> Candidates:
        """Score the candidate spans of `windows`, with a gate those that pass -> the pairs that may be entities.

        Decode them per sentence with `decoding.decode`: a sentence may have several windows.
        """
        threshold = self.config.threshold if threshold is None else threshold
        parts = [self.candidates(scored, threshold)[0] for scored in self.score_batches(windows)]
        return Candidates.concatenate([Candidates.empty(), *parts])

    def candidates(self, scored: "ScoredBatch", threshold: Threshold = None) -> tuple[Candidates, np.ndarray]:
        """Return the (span, label) pairs that may be entities, and which of the scored spans each is."""
        batch, spans = scored.windows, scored.spans
        thresholds = threshold_vector(threshold, self.config.labels)
        rows, labels = select_pairs(scored.probabilities, self.config.outside_index, thresholds)
        first, last = spans.first_word[rows], spans.last_word[rows]
        window = np.searchsorted(spans.offsets, rows, "right") - 1
        found = Candidates(
            window=scored.indices[window],
            document=batch.document[window],
            sentence=batch.word_sentence[first],
            word_start=batch.word_index[first],
            word_end=batch.word_index[last] + 1,
            char_start=batch.word_char_start[first],
            char_end=batch.word_char_end[last],
            label=labels.astype(np.int32),
            score=scored.probabilities[rows, labels],
        )
        return found, rows

    def score_batches(self, windows: Windows) -> Iterator["ScoredBatch"]:
        """Yield what the network says of `windows`, batch by batch, windows of like length together."""
        entity_max_length = self.config.entity_max_length
        for indices in plan_batches(windows, entity_max_length, BATCH_TOKENS[self.device.type]):
            batch = windows.take(indices)
            spans = candidate_spans(batch, entity_max_length)
            if len(spans) == 0:
                continue
            with torch.inference_mode(), torch.autocast(self.device.type, torch.bfloat16, self.dtype == "bfloat16"):
                scores = self.network(Batch.build(batch, spans).to(self.device), self.gate_threshold)
                probabilities = scores.logits.float().softmax(dim=-1).cpu().numpy()
                gate = None if scores.gate is None else scores.gate.float().sigmoid().cpu().numpy()
            lengths = np.diff(batch.token_offsets)
            self.work["candidates"] += len(spans)
            self.work["scored_candidates"] += len(probabilities)
            self.work["tokens"] += int(lengths.sum())
            self.work["token_places"] += len(lengths) * int(lengths.max())
            yield ScoredBatch(
                indices=indices,
                windows=batch,
                spans=spans if scores.kept is None else spans.take(scores.kept),
                n_candidates=len(spans),
                probabilities=probabilities,
                gate=gate,
            )

    def _context(self, policy: str | None, max_prev: int | None, max_next: int | None) -> Context:
        if policy is None:
            if max_prev is not None or max_next is not None:
                raise CoreError("call.limit_without_context")
            return self.config.context
        return Context(policy, max_prev, max_next)

    def _entities(
        self,
        parts: list[Windows],
        decoder: str | None,
        threshold: Threshold,
        texts: Sequence[str] | None = None,
    ) -> list[tuple[int, Entity]]:
        """Return (document, entity) of all windows, in order; with `texts`, entities have characters."""
        decoder = check_decoder(decoder or self.config.decoder)  # before the work, not after
        if not parts:
            return []
        found = decode(self.score(Windows.concatenate(parts), threshold), decoder)
        entities = []
        columns = (getattr(found, name).tolist() for name in Candidates.__slots__)
        for _, document, sentence, word_start, word_end, start, end, label, score in zip(*columns, strict=True):
            entity = Entity(self.config.labels[label], score, word_start, word_end, sentence=sentence)
            if texts is not None:
                entity = replace(entity, char_start=start, char_end=end, text=texts[document][start:end])
            entities.append((document, entity))
        return entities


def load(path: str | Path, device: str = "cpu", dtype: str = "float32", gate: str = "auto") -> Tagger:
    """Load a bundle. Nothing is fetched, no code in the bundle is run.

    Args:
        path: the bundle's folder.
        device: "cpu", "cuda", "cuda:1", …; "auto" takes a GPU where there is one.
        dtype: one of `DTYPES`. "bfloat16" has matrix products in it, sums and softmax in float32, and changes scores.
        gate: "auto" is as the model was trained: with its gate, if it was trained with one. "on" also takes a gate
            that was fitted later, which may lose entities; "off" scores every candidate span.

    Raises:
        CoreError: `bundle.*`, `encoder.*`, `device.not_available`, `call.unknown_option`, `call.no_gate`.
    """
    for option, value, choices in (("dtype", dtype, DTYPES), ("gate", gate, GATE_CHOICES)):
        if value not in choices:
            raise CoreError("call.unknown_option", option=option, value=value, choices=", ".join(choices))
    target = choose_device(device)
    info = read_info(path)
    threshold = gate_threshold(info.config, gate, path)
    packer = read_packer(path, info.config)
    with refusing("bundle.bad_config", path=path):
        network = build_network(info.config)
    with refusing("bundle.bad_file", path=path, file=WEIGHTS), unusable("it can't be read as weights"):
        weights = load_file(info.path / WEIGHTS)
    if bad := not_finite(weights):
        raise CoreError("bundle.nan_weight", path=path, name=bad[0], count=bad[1])
    expected = {name: tuple(weight.shape) for name, weight in network.state_dict().items()}
    found = {name: tuple(weight.shape) for name, weight in weights.items()}
    if expected != found:
        differing = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
        raise CoreError("bundle.weights_mismatch", path=path, problem=", ".join(differing[:5]))
    network.load_state_dict(weights)
    return Tagger(info.config, packer, network, target, dtype, threshold)


def build_network(config: ModelConfig) -> nn.Module:
    """Build the model that a config describes, with random weights.

    Raises:
        UnusableError: with what transformers has against the encoder's config.
        CoreError: `encoder.no_position_ids`.
    """
    with unusable("its encoder can't be built"):
        return architecture(config.architecture).from_config(config)


def choose_device(device: str) -> torch.device:
    """Return the device, or say why it can't be had.

    Raises:
        CoreError: `device.not_available`.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
        torch.zeros(1, device=chosen)
    except (RuntimeError, AssertionError) as error:
        raise CoreError("device.not_available", device=device, reason=str(error).splitlines()[0]) from error
    return chosen


def _documents(
    n_sentences: int, document_ids: Sequence[object] | None, sentence_ids: Sequence[int] | None
) -> list[list[int]]:
    """Return the sentence numbers of each document, in reading order."""
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

"""A loaded model: words or text in, entities out."""

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from spanmarker_core.bundle import hub
from spanmarker_core.bundle.config import ModelConfig, decoder_of
from spanmarker_core.bundle.reader import BundleInfo
from spanmarker_core.errors import CoreError, CoreWarning
from spanmarker_core.inference.batching import BatchPlan, run_batches
from spanmarker_core.inference.input_checks import check_bounds, documents, validate_texts, validate_words
from spanmarker_core.inference.loading import load_network
from spanmarker_core.models.batch import Batch
from spanmarker_core.spans.candidates import Spans, candidate_spans
from spanmarker_core.spans.decoding import Candidates, Threshold, decode, select_pairs, threshold_vector
from spanmarker_core.text.sentences import split_sentences
from spanmarker_core.windows.packer import Context, Packer, Windows

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
        labels: int64 [n_spans], what each span is where the network itself decides it, see `models.NetworkScores`.
    """

    indices: np.ndarray
    windows: Windows
    spans: Spans
    n_candidates: int
    probabilities: np.ndarray
    gate: np.ndarray | None
    labels: np.ndarray | None = None


class Tagger:
    """A model with its tokenizer, labels and decoder, ready to tag. Made by `load`.

    Attributes:
        config: the bundle's config.
        packer: encodes and packs text as the model was trained; needs no device.
        network: the torch module.
        device: where the network runs.
        dtype: one of `DTYPES`.
        gate_threshold: least probability of a span's edges; None for no gate, which scores every candidate.
        bundle: where the model was loaded from; None for one that was never stored.
        work: what was done since the model was loaded: candidate spans there were to score ("candidates"), those of
            them that were ("scored_candidates"), both 0 where tags give the entities, text tokens encoded ("tokens"),
            the places that they and their padding took in attention ("token_places"), and batches that were halved
            since memory ran out ("out_of_memory").
    """

    def __init__(
        self,
        config: ModelConfig,
        packer: Packer,
        network: nn.Module,
        device: torch.device,
        dtype: str = "float32",
        gate_threshold: float | None = None,
        bundle: BundleInfo | None = None,
    ) -> None:
        self.config = config
        self.packer = packer
        self.network = network.to(device).eval()
        self.device = device
        self.dtype = dtype
        self.gate_threshold = gate_threshold
        self.bundle = bundle
        self.work: Counter[str] = Counter()
        self._warned: set[str] = set()

    def tag_text(
        self,
        texts: Sequence[str],
        *,
        split: bool = True,
        sentences: Sequence[Sequence[tuple[int, int]]] | None = None,
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
            sentences: where the sentences of each text are, as (char_start, char_end), half-open, in order, in place
                of splitting. What lies outside of them is not read.
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
        texts = validate_texts(texts)
        if sentences is not None:
            check_bounds(sentences, texts)
        policy = self._context(context, max_prev_context, max_next_context)
        parts = []
        for number, text in enumerate(texts):
            if sentences is not None:
                bounds = sentences[number]
            else:
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
        sentences = validate_words(sentences)
        if sentence_ids is not None and document_ids is None:
            raise CoreError("call.ids_without_documents")
        for what, ids in (("document_ids", document_ids), ("sentence_ids", sentence_ids)):
            if ids is not None and len(ids) != len(sentences):
                raise CoreError("call.lengths_differ", what=what, found=len(ids), expected=len(sentences))
        apart = document_ids is None and len(sentences) > 1
        policy = self._context(context, max_prev_context, max_next_context, apart)
        encoded = self.packer.encode_words(sentences)
        parts = [
            # A word's sentence number is its place in the caller's list, which takes it back there.
            self.packer.pack([encoded[i] for i in members], policy, sentence_ids=members)
            for members in documents(len(sentences), document_ids, sentence_ids)
        ]
        entities: list[list[Entity]] = [[] for _ in sentences]
        for _, entity in self._entities(parts, decoder, threshold):
            entities[entity.sentence].append(entity)
        return entities

    @classmethod
    def load(cls, path: str | Path, device: str = "cpu", dtype: str = "float32", gate: str = "auto") -> "Tagger":
        """Load a bundle. Nothing is downloaded, and no code in the bundle is run.

        Args:
            path: the bundle's folder.
            device: "cpu", "cuda", "cuda:1", …; "auto" takes a GPU where there is one.
            dtype: one of `DTYPES`. "bfloat16" computes matrix products in it, sums and softmax in float32, and changes
                scores. "int8" quantises the encoder's linear layers (see `int8`), on CPUs only, and changes scores
                more.
            gate: "auto" uses the gate as the model was trained: with it, if it was trained with one. "on" also uses a
                gate that was fitted later, which may lose entities; "off" scores every candidate span.

        Raises:
            CoreError: `bundle.*`, `encoder.*`, `device.*`, `call.unknown_option`, `call.no_gate`.
        """
        info, packer, network, target, threshold = load_network(path, device, dtype, gate)
        return cls(info.config, packer, network, target, dtype, threshold, info)

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        *,
        revision: str | None = None,
        token: str | bool | None = None,
        cache_dir: str | Path | None = None,
        local_files_only: bool = False,
        **options: Any,
    ) -> "Tagger":
        """Load a bundle from a local folder or a repository of the hub.

        Args:
            name: a folder, or a repository, such as "owner/name".
            revision: commit, tag or branch of a repository; required for one.
            token: for the hub; None takes the one that is stored on this machine.
            cache_dir: folder for downloads; None is the hub client's own cache.
            local_files_only: use the cache only and send no request.
            options: device, dtype and gate, as in `load`.

        Raises:
            CoreError: `hub.*`, and those of `load`.
        """
        folder = hub.local_folder(
            name, revision=revision, token=token, cache_dir=cache_dir, local_files_only=local_files_only
        )
        return cls.load(folder, **options)

    def save_pretrained(self, path: str | Path) -> str:
        """Copy the bundle as it was stored, whatever it was loaded with, and return its digest.

        Raises:
            CoreError: `hub.not_stored`, and those of `hub.save_pretrained`.
        """
        return hub.save_pretrained(self._stored(), path)

    def push_to_hub(self, repository: str, **options: Any) -> str:
        """Upload the bundle as it was stored and return the commit; see `hub.push_to_hub`.

        Raises:
            CoreError: `hub.not_stored`, and those of `hub.push_to_hub`.
        """
        return hub.push_to_hub(self._stored(), repository, **options)

    def _stored(self) -> BundleInfo:
        if self.bundle is None:
            raise CoreError("hub.not_stored")
        return self.bundle

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
        rows, labels = select_pairs(scored.probabilities, self.config.outside_index, thresholds, scored.labels)
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
        """Yield what the network says of `windows`, batch by batch, windows of like length together.

        Where memory runs out, they get smaller.

        Raises:
            Exception: as `batching.run_batches`.
        """
        batches = BatchPlan(windows, self.config.entity_max_length, BATCH_TOKENS[self.device.type])
        for scored in run_batches(batches, partial(self._scored, windows), self.device, self._count_failure):
            if scored is not None:
                yield scored

    def _count_failure(self) -> None:
        self.work["out_of_memory"] += 1

    def _scored(self, windows: Windows, indices: np.ndarray) -> "ScoredBatch | None":
        """Return what the network says of some of `windows`; None where they have no candidate span."""
        batch = windows.take(indices)
        spans = candidate_spans(batch, self.config.entity_max_length)
        if len(spans) == 0:
            return None
        with torch.inference_mode(), torch.autocast(self.device.type, torch.bfloat16, self.dtype == "bfloat16"):
            scores = self.network(Batch.build(batch, spans).to(self.device), self.gate_threshold)
            probabilities = scores.logits.float().softmax(dim=-1).cpu().numpy()
            gate = None if scores.gate is None else scores.gate.float().sigmoid().cpu().numpy()
        lengths = np.diff(batch.token_offsets)
        if scores.labels is None:
            self.work["candidates"] += len(spans)
            self.work["scored_candidates"] += len(probabilities)
        self.work["tokens"] += int(lengths.sum())
        self.work["token_places"] += len(lengths) * int(lengths.max())
        return ScoredBatch(
            indices=indices,
            windows=batch,
            spans=spans if scores.kept is None else spans.take(scores.kept),
            n_candidates=len(spans),
            probabilities=probabilities,
            gate=gate,
            labels=scores.labels,
        )

    def _context(self, policy: str | None, max_prev: int | None, max_next: int | None, apart: bool = False) -> Context:
        """Return the context to tag with; warn, once a model, where it is not what the model was trained with.

        Args:
            policy, max_prev, max_next: of the call.
            apart: whether the sentences came without their documents, so that there is nothing around them to show.
        """
        trained = chosen = self.config.context
        if policy is None:
            if max_prev is not None or max_next is not None:
                raise CoreError("call.limit_without_context")
        else:
            chosen = Context(policy, max_prev, max_next)
        if chosen != trained:
            warning = CoreWarning("context.differs", found=chosen, trained=trained)
        elif apart and chosen.policy != "sentence":
            warning = CoreWarning("context.no_documents", trained=trained)
        else:
            return chosen
        if warning.code not in self._warned:
            self._warned.add(warning.code)
            warnings.warn(warning, stacklevel=3)
        return chosen

    def _entities(
        self,
        parts: list[Windows],
        decoder: str | None,
        threshold: Threshold,
        texts: Sequence[str] | None = None,
    ) -> list[tuple[int, Entity]]:
        """Return (document, entity) of all windows, in order; with `texts`, entities have characters."""
        decoder = decoder_of(self.config, decoder)  # before the work, not after
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


load = Tagger.load

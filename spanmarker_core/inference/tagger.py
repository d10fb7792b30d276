"""The tagger: a loaded model that finds entities in words or text."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

import torch
from torch import nn

from spanmarker_core.bundle import hub
from spanmarker_core.bundle.config import ModelConfig, decoder_of
from spanmarker_core.bundle.reader import BundleInfo
from spanmarker_core.bundle.repositories import Access, find_bundle
from spanmarker_core.default_model import bundled_model_path
from spanmarker_core.errors import CoreError, CoreWarning
from spanmarker_core.inference.input_checks import check_bounds, documents, validate_texts, validate_words
from spanmarker_core.inference.loading import load_network
from spanmarker_core.inference.scorer import Scorer
from spanmarker_core.spans.decoding import Candidates, Threshold, decode
from spanmarker_core.text.languages import normalise_language
from spanmarker_core.text.sentences import SENTENCE_BREAKS, SentenceBreaks, split_sentences
from spanmarker_core.windows.packer import Context, Packer, Windows

#: Labels that `repr` shows.
_LABELS = 5


@dataclass(frozen=True, slots=True)
class Entity:
    """One entity. Ranges are half-open.

    Attributes:
        label: the entity's type.
        score: the model's probability of the label, from 0 to 1.
        word_start: index of the first word in the sentence.
        word_end: exclusive, in the sentence.
        char_start: offset in the text, in code points; None for word input.
        char_end: exclusive, in the text; None for word input.
        text: the text from `char_start` to `char_end`; None for word input.
        sentence: number of the sentence in its text; for word input, its position in the given list.
    """

    label: str
    score: float
    word_start: int
    word_end: int
    char_start: int | None = None
    char_end: int | None = None
    text: str | None = None
    sentence: int = 0


class Tagger(Scorer):
    """A model with its tokenizer, labels and decoder, ready to tag; usually created by `load`.

    Args:
        config: the model's config.
        packer: encoder and packer of text, configured as in training; independent of the device.
        network: the torch module.
        device: device for the network.
        dtype: number type for computations: "float32", "bfloat16" or "int8".
        gate_threshold: minimum probability of a span's edges; None for no gate, so that every candidate is scored.
        bundle: the bundle that the model was loaded from; None for a model that was never stored.

    Attributes:
        packer: encoder and packer of text.
        bundle: the bundle that the model was loaded from, or None.
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
        super().__init__(config, network, device, dtype, gate_threshold)
        self.packer = packer
        self.bundle = bundle
        self._warned: set[str] = set()

    def __repr__(self) -> str:
        shown = ", ".join(self.labels[:_LABELS]) + (", …" if len(self.labels) > _LABELS else "")
        gate = "off" if self.gate_threshold is None else f"from {self.gate_threshold:g}"
        parts = [
            self.config.architecture,
            f"{len(self.labels)} label{'' if len(self.labels) == 1 else 's'}: {shown}",
            f"device {self.device}",
            f"dtype {self.dtype}",
            f"gate {gate}",
            *([] if self.bundle is None else [f"bundle {self.bundle.path}"]),
        ]
        return f"<{type(self).__name__}: {'; '.join(parts)}>"

    @property
    def labels(self) -> list[str]:
        """The labels that the model can predict, in the order of its outputs, without the one for "no entity"."""
        return [label for label in self.config.labels if label != self.config.outside]

    @overload
    def tag_text(  # type: ignore[overload-overlap]  # A string is a sequence of strings too.
        self,
        texts: str,
        *,
        split: bool = True,
        sentences: Sequence[tuple[int, int]] | None = None,
        language: str = "en",
        sentence_breaks: SentenceBreaks = "auto",
        context: str | None = None,
        max_prev_context: int | None = None,
        max_next_context: int | None = None,
        decoder: str | None = None,
        threshold: Threshold = None,
    ) -> list[Entity]: ...

    @overload
    def tag_text(
        self,
        texts: Sequence[str],
        *,
        split: bool = True,
        sentences: Sequence[Sequence[tuple[int, int]]] | None = None,
        language: str = "en",
        sentence_breaks: SentenceBreaks = "auto",
        context: str | None = None,
        max_prev_context: int | None = None,
        max_next_context: int | None = None,
        decoder: str | None = None,
        threshold: Threshold = None,
    ) -> list[list[Entity]]: ...

    def tag_text(
        self,
        texts: str | Sequence[str],
        *,
        split: bool = True,
        sentences: Sequence[Any] | None = None,
        language: str = "en",
        sentence_breaks: SentenceBreaks = "auto",
        context: str | None = None,
        max_prev_context: int | None = None,
        max_next_context: int | None = None,
        decoder: str | None = None,
        threshold: Threshold = None,
    ) -> list[Entity] | list[list[Entity]]:
        """Tag one or more raw texts; each text is a document.

        Args:
            texts: a text, or several; they may be empty.
            split: split each text into sentences; False treats each text as one sentence.
            sentences: sentences of each text, or of the single text, as (char_start, char_end), half-open, in order,
                used instead of splitting. Text outside them is ignored.
            language: language of the texts, for the sentence splitter: a code such as "en", "de-AT" or "deu", or an
                English name.
            sentence_breaks: "auto", or "lines" to split each line as a text of its own, as for lists.
            context: context policy: "sentence", "document" or "block"; None for the bundle's default.
            max_prev_context: maximum sentences of context before, for "document" only; None for no limit. Requires
                `context`.
            max_next_context: maximum sentences of context after, for "document" only; None for no limit. Requires
                `context`.
            decoder: "flat.v1", "nested.v1" or "all.v1"; None for the bundle's default.
            threshold: minimum probability of an entity, for all labels or by label; None for the bundle's default.

        Returns:
            The entities of a single text, or one list of entities per text; sorted by position.

        Raises:
            CoreError: `call.not_a_list`, `call.not_text`, `call.half_a_character`, `call.bad_language`,
                `call.sentences_differ`, `call.bad_sentences`, `call.unknown_option`, `call.bad_limit`,
                `call.limit_without_context`, `call.flat_tags`, `call.bad_threshold`, `call.unknown_label`,
                `library.panicked`.
        """
        single = isinstance(texts, str)
        if isinstance(texts, str):
            texts, sentences = [texts], None if sentences is None else [sentences]
        texts = validate_texts(texts)
        language = normalise_language(language)
        if sentence_breaks not in SENTENCE_BREAKS:
            choices = ", ".join(SENTENCE_BREAKS)
            raise CoreError("call.unknown_option", option="sentence_breaks", value=sentence_breaks, choices=choices)
        if sentences is not None:
            check_bounds(sentences, texts)
        policy = self._context(context, max_prev_context, max_next_context)
        parts = []
        for number, text in enumerate(texts):
            if sentences is not None:
                bounds = sentences[number]
            else:
                bounds = split_sentences(text, language, sentence_breaks) if split else [(0, len(text))]
            encoded = self.packer.encode_texts([text[start:end] for start, end in bounds])
            parts.append(self.packer.pack(encoded, policy, document=number, char_starts=[start for start, _ in bounds]))
        entities: list[list[Entity]] = [[] for _ in texts]
        for document, entity in self._entities(parts, decoder, threshold, texts):
            entities[document].append(entity)
        return entities[0] if single else entities

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
            document_ids: document of each sentence; None makes each sentence its own document.
            sentence_ids: position of each sentence in its document; None for the given order. Requires `document_ids`.
            context: as in `tag_text`.
            max_prev_context: as in `tag_text`.
            max_next_context: as in `tag_text`.
            decoder: as in `tag_text`.
            threshold: as in `tag_text`.

        Returns:
            One list of entities per sentence, in the given order.

        Raises:
            CoreError: `call.not_a_list`, `call.not_words`, `call.half_a_character`, `call.ids_without_documents`,
                `call.lengths_differ`, `call.unknown_option`, `call.bad_limit`, `call.limit_without_context`,
                `call.flat_tags`, `call.bad_threshold`, `call.unknown_label`, `library.panicked`.
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
            # A word's sentence number is the sentence's position in the caller's list.
            self.packer.pack([encoded[i] for i in members], policy, sentence_ids=members)
            for members in documents(len(sentences), document_ids, sentence_ids)
        ]
        entities: list[list[Entity]] = [[] for _ in sentences]
        for _, entity in self._entities(parts, decoder, threshold):
            entities[entity.sentence].append(entity)
        return entities

    @classmethod
    def load(
        cls, path: str | Path | None = None, device: str = "cpu", dtype: str = "float32", gate: str = "auto"
    ) -> "Tagger":
        """Load a bundle. No code in the bundle is run.

        Args:
            path: a folder, which takes precedence; or a repository of the hub, "owner/name" or "owner/name@revision",
                which is downloaded unless it is in the cache; None for the model that is part of this package.
            device: "cpu", "cuda", "cuda:1", …; "auto" for a GPU if there is one.
            dtype: number type for computations: "float32", "bfloat16" or "int8". "bfloat16" is used for matrix
                products, with sums and softmax in float32, and changes scores. "int8" quantises the encoder's linear
                layers, on CPUs only, and changes scores more.
            gate: "auto" uses the gate if the model was trained with it. "on" also uses a gate that was fitted later,
                which may lose entities; "off" scores every candidate span.

        Raises:
            CoreError: `call.unknown_option`, `call.no_gate`, `device.not_available`, `device.no_int8`,
                `encoder.no_position_ids`, `encoder.entity_too_long`, `checkpoint.no_outside_label`, `bundle.not_found`,
                `bundle.missing_file`, `bundle.digest_mismatch`, `bundle.bad_config`, `bundle.bad_file`,
                `bundle.format_too_new`, `bundle.nan_weight`, `bundle.weights_mismatch`, and those of
                `from_pretrained`.
        """
        path = bundled_model_path() if path is None else find_bundle(path).path
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
            name: a folder, which takes precedence; or a repository, "owner/name" or "owner/name@revision".
            revision: commit, tag or branch of a repository; None for that of the name, or else the main branch.
            token: access token for the hub; None for the token stored on the computer.
            cache_dir: folder for downloads; None for the hub client's default cache.
            local_files_only: use the cache only and don't send requests.
            options: device, dtype and gate, as in `load`.

        Raises:
            CoreError: `hub.not_found`, `hub.two_revisions`, `hub.no_repository`, `hub.no_revision`, `hub.not_cached`,
                `hub.not_reached`, `hub.not_a_bundle`, `hub.failed`, and those of `load`.
        """
        return cls.load(find_bundle(name, revision, Access(token, cache_dir, local_files_only)).path, **options)

    def save_pretrained(self, path: str | Path) -> str:
        """Copy the bundle as it was stored, regardless of the options of `load`, and return its digest.

        Args:
            path: a folder that doesn't exist or is empty.

        Raises:
            CoreError: `hub.not_stored`, `bundle.output_exists`, `bundle.output_not_writable`; if the bundle has
                changed, `hub.changed`, `bundle.not_found`, `bundle.missing_file`, `bundle.digest_mismatch`,
                `bundle.bad_file`, `bundle.bad_config`.
        """
        return hub.save_pretrained(self._stored(), path)

    def push_to_hub(self, repository: str, **options: Any) -> str:
        """Upload the bundle as it was stored to a repository of the hub and return the commit.

        Args:
            repository: the repository, such as "owner/name"; it is created if it doesn't exist.
            options: private, revision, token and commit_message: whether a new repository is private, the branch, the
                access token, and the message of the commit; all have defaults.

        Raises:
            CoreError: `hub.not_stored`, `hub.failed`; if the bundle has changed, `hub.changed`, `bundle.not_found`,
                `bundle.missing_file`, `bundle.digest_mismatch`, `bundle.bad_file`, `bundle.bad_config`.
        """
        return hub.push_to_hub(self._stored(), repository, **options)

    def _stored(self) -> BundleInfo:
        if self.bundle is None:
            raise CoreError("hub.not_stored")
        return self.bundle

    def _context(self, policy: str | None, max_prev: int | None, max_next: int | None, apart: bool = False) -> Context:
        """Return the context to tag with; warn once per model if it differs from that of training.

        Args:
            policy: context policy of the call.
            max_prev: maximum sentences of context before, of the call.
            max_next: maximum sentences of context after, of the call.
            apart: whether sentences were given without their documents, so that no context is available.
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
        """Return (document, entity) for all windows, in order; with `texts`, entities have character offsets."""
        decoder = decoder_of(self.config, decoder)  # checked before the work, not after
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

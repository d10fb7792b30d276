"""The spaCy component `spanmarker`.

    nlp = spacy.blank("en")
    nlp.add_pipe("spanmarker", config={"model": "bundle/"})

The component sets on each document:

- `doc.spans[spans_key]`: all entities in order, with their scores in `attrs["scores"]`;
- `doc.ents`: a subset that shares no tokens, chosen by score. With the decoder `flat.v1`, and if spaCy's tokens are at
  least as fine as the model's words, it contains all entities;
- `doc.user_data["spanmarker"]`: each entity exactly as the model found it: label, score, start_char, end_char.

Sentences are taken from an earlier component (`sentencizer`, a parser, …) if there is one, and otherwise from the
model's sentence splitter. `nlp.pipe` tags a batch of documents in one call, with the same result as `nlp`.
"""

import os
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import torch
from spacy.language import Language
from spacy.tokens import Doc, Span, SpanGroup

from spanmarker_core.errors import CoreError, CoreWarning
from spanmarker_core.inference.tagger import Entity, Tagger
from spanmarker_core.text.languages import known_language, normalise_language
from spanmarker_core.text.sentences import split_sentences

#: Treatment of an entity that begins or ends within a spaCy token: "expand" extends it to whole tokens, "strict"
#: creates no `Span` for it.
ALIGNMENTS = ("expand", "strict")
USER_DATA = "spanmarker"

_DEFAULTS = {
    "revision": None,
    "device": "cpu",
    "dtype": "float32",
    "gate": "auto",
    "decoder": None,
    "threshold": None,
    "context": None,
    "max_prev_context": None,
    "max_next_context": None,
    "language": None,
    "alignment": "expand",
    "overwrite_ents": False,
    "spans_key": "spanmarker",
    "batch_size": 32,
}


@Language.factory(  # type: ignore[untyped-decorator]
    "spanmarker", default_config=_DEFAULTS, assigns=["doc.ents", "doc.spans"]
)
def make_spanmarker(
    nlp: Language,
    name: str,
    model: str,
    revision: str | None,
    device: str,
    dtype: str,
    gate: str,
    decoder: str | None,
    threshold: float | dict[str, float] | None,
    context: str | None,
    max_prev_context: int | None,
    max_next_context: int | None,
    language: str | None,
    alignment: str,
    overwrite_ents: bool,
    spans_key: str,
    batch_size: int,
) -> "SpanMarkerComponent":
    """Create the component.

    Args:
        nlp: the spaCy pipeline.
        name: name of the component.
        model: a bundle's folder, or a repository on a model hub, such as "owner/name" or "owner/name@revision".
        revision: commit, tag or branch of a repository; None for that of the name, or else the main branch.
        device: "cpu", "cuda", "cuda:1", …; "auto" uses a GPU if there is one.
        dtype: number format of the computation: "float32", "bfloat16" or "int8".
        gate: "auto" uses a gate that was trained with the model, "on" any gate, "off" none.
        decoder: name of a decoder, such as "flat.v1"; None uses the bundle's decoder.
        threshold: minimum score, for all labels or by label; None uses the bundle's threshold.
        context: "sentence", "document" or "block"; None uses the bundle's policy.
        max_prev_context: for "document", maximum number of previous sentences; None is unlimited.
        max_next_context: for "document", maximum number of following sentences; None is unlimited.
        language: language of the sentence splitter; None uses the pipeline's language, and English for one of
            several languages ("xx").
        alignment: one of `ALIGNMENTS`.
        overwrite_ents: whether to remove entities of earlier components from `doc.ents`. Otherwise they are kept, and
            entities that share a token with them are in `doc.spans` only.
        spans_key: key in `doc.spans`.
        batch_size: maximum number of documents per call of the model; spaCy passes its own default of 1000 to
            `nlp.pipe`.

    Raises:
        CoreError: `call.unknown_option`, `call.bad_language`, `spacy.bad_batch_size`. If the model cannot be loaded:
            the `hub.*` of `Tagger.from_pretrained`, `bundle.not_found`, `bundle.missing_file`,
            `bundle.digest_mismatch`, `bundle.bad_file`, `bundle.bad_config`,
            `bundle.format_too_new`, `bundle.weights_mismatch`, `bundle.nan_weight`, `checkpoint.no_outside_label`,
            `encoder.entity_too_long`, `encoder.no_position_ids`, `device.not_available`, `call.no_gate`.
    """
    if alignment not in ALIGNMENTS:
        raise CoreError("call.unknown_option", option="alignment", value=alignment, choices=", ".join(ALIGNMENTS))
    if batch_size < 1:
        raise CoreError("spacy.bad_batch_size", value=batch_size)
    language = normalise_language(language) if language is not None else known_language(nlp.lang) or "en"
    tagger = Tagger.from_pretrained(model, revision=revision, device=device, dtype=dtype, gate=gate)
    options = {
        "decoder": decoder,
        "threshold": threshold,
        "context": context,
        "max_prev_context": max_prev_context,
        "max_next_context": max_next_context,
    }
    return SpanMarkerComponent(tagger, options, language, alignment, overwrite_ents, spans_key, batch_size)


class SpanMarkerComponent:
    """spaCy component that tags documents, created by `make_spanmarker`.

    Args:
        tagger: the model.
        options: decoder, threshold and context options of each call.
        language: language of the sentence splitter.
        alignment: one of `ALIGNMENTS`.
        overwrite_ents: whether to remove entities of earlier components from `doc.ents`.
        spans_key: key in `doc.spans`.
        batch_size: maximum number of documents per call of the model.

    Attributes:
        tagger: the model.
        counts: counts over all documents so far: "entities"; of those, "not_on_tokens" do not match spaCy's tokens, and
            "not_in_ents" share a token with another entity.
    """

    def __init__(
        self,
        tagger: Tagger,
        options: dict[str, Any],
        language: str,
        alignment: str,
        overwrite_ents: bool,
        spans_key: str,
        batch_size: int,
    ) -> None:
        self.tagger = tagger
        self.counts: Counter[str] = Counter()
        self._options = options
        self._language = language
        self._alignment = alignment
        self._overwrite_ents = overwrite_ents
        self._spans_key = spans_key
        self._batch_size = batch_size
        self._process = os.getpid()

    def __call__(self, doc: Doc) -> Doc:
        """Tag one document."""
        self._tag([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int | None = None) -> Iterator[Doc]:
        """Tag a stream of documents in batches.

        Args:
            stream: the documents.
            batch_size: maximum number of documents per call of the model; values above the component's own are reduced
                to it.
        """
        documents = iter(stream)
        size = min(batch_size or self._batch_size, self._batch_size)
        while batch := list(islice(documents, size)):
            self._tag(batch)
            yield from batch

    def _tag(self, docs: list[Doc]) -> None:
        if os.getpid() != self._process:
            # nlp.pipe(n_process=…) forks without the threads of torch's pool, for which torch would wait forever.
            self._process = os.getpid()
            torch.set_num_threads(1)
        sentences = [self._sentences(doc) for doc in docs]
        found = self.tagger.tag_text([doc.text for doc in docs], sentences=sentences, **self._options)
        for doc, entities in zip(docs, found, strict=True):
            self._write(doc, entities)

    def _sentences(self, doc: Doc) -> list[tuple[int, int]]:
        """Return a document's sentences as (char_start, char_end)."""
        if doc.has_annotation("SENT_START"):
            return [(sentence.start_char, sentence.end_char) for sentence in doc.sents]
        return split_sentences(doc.text, self._language)

    def _write(self, doc: Doc, entities: list[Entity]) -> None:
        spans, scores = [], []
        off = 0
        for entity in entities:
            exact = doc.char_span(entity.char_start, entity.char_end, label=entity.label)
            off += exact is None
            span = exact
            if exact is None and self._alignment == "expand":
                span = doc.char_span(entity.char_start, entity.char_end, label=entity.label, alignment_mode="expand")
            if span is not None:
                spans.append(span)
                scores.append(entity.score)
        doc.user_data[USER_DATA] = [
            {"label": e.label, "score": e.score, "start_char": e.char_start, "end_char": e.char_end} for e in entities
        ]
        attributes = {"scores": np.array(scores, dtype=np.float32)}
        doc.spans[self._spans_key] = SpanGroup(doc, name=self._spans_key, spans=spans, attrs=attributes)
        kept = () if self._overwrite_ents else doc.ents
        ours = _apart(spans, scores, kept)
        doc.set_ents([*kept, *ours])
        self.counts["entities"] += len(entities)
        self.counts["not_in_ents"] += len(spans) - len(ours)
        if off and not self.counts["not_on_tokens"]:
            done = "were extended to token edges" if self._alignment == "expand" else "have no Span"
            warnings.warn(CoreWarning("spacy.not_on_tokens", count=off, total=len(entities), done=done), stacklevel=2)
        self.counts["not_on_tokens"] += off


def _apart(spans: list[Span], scores: list[float], taken: Iterable[Span]) -> list[Span]:
    """Return spans that share no token with each other or with `taken`; ties are broken as in decoding."""
    order = sorted(
        range(len(spans)),
        key=lambda i: (-scores[i], spans[i].start - spans[i].end, spans[i].start, spans[i].label_),
    )
    tokens = {token for span in taken for token in range(span.start, span.end)}
    chosen = []
    for span in (spans[index] for index in order):
        own = range(span.start, span.end)
        if tokens.isdisjoint(own):
            tokens.update(own)
            chosen.append(span)
    return chosen

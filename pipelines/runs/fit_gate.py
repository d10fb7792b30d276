"""Driver of `spanmarker gate fit`: samples the corpus, fits the gate and writes the bundle."""

import hashlib
import heapq
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from time import monotonic

from rich.console import Console

from pipelines.jobs.fit_gate import GateJob
from pipelines.output.overwrite import refuse_bundle
from pipelines.planning.documents import plan_shards
from pipelines.planning.files import renamed
from pipelines.planning.standard_input import with_copies
from pipelines.report.printed import print_plain
from pipelines.stages.read import read
from pipelines.storage import absolute
from schemas.shards import Shard
from spanmarker_core.bundle.config_checks import check_gateable
from spanmarker_core.bundle.reader import read_info
from spanmarker_core.bundle.repositories import find_bundle
from spanmarker_core.errors import CoreError
from spanmarker_core.text.sentences import split_sentences
from spanmarker_core.windows.packer import Context, Packer, Windows

#: Maximum number of shards to sample texts from, and number of shards read concurrently. Several are interleaved, so
#: that a single file does not dominate the sample.
_SHARDS, _OPEN_SHARDS = 4096, 32


_SHARD_BYTES = 1 << 20


#: Maximum share of the sentences taken from one document, so that the sample has many documents; at least
#: `_DOCUMENT_SENTENCES` are allowed.
_DOCUMENT_SHARE, _DOCUMENT_SENTENCES = 0.05, 20


#: A gate is fitted on one part of the documents, stopped early on a second and measured on a third.
_LEAST_DOCUMENTS = 3


@dataclass(slots=True)
class Corpus:
    """The sample of a corpus.

    Attributes:
        parts: the windows of each document that has sentences.
        sentences: number of sentences in `parts`.
        copies: number of documents skipped because an equal text came before.
        rejects: rejected records by code.
        more_documents: whether documents remained after enough sentences were read.
        more_sentences: whether sentences were skipped because of the limit per document.
    """

    parts: list[Windows] = field(default_factory=list)
    sentences: int = 0
    copies: int = 0
    rejects: Counter[str] = field(default_factory=Counter)
    more_documents: bool = False
    more_sentences: bool = False

    def counts(self) -> str:
        """Return a sentence on the sampled and skipped documents.

        >>> Corpus(copies=2, rejects=Counter(null_text=1)).counts()
        '0 sentences of 0 documents; left out: 2 copies of documents, 1 rejected record (null_text 1)'
        """
        left_out = [f"{self.copies:,} {'copy of a document' if self.copies == 1 else 'copies of documents'}"]
        rejected = self.rejects.total()
        codes = ", ".join(f"{code} {count:,}" for code, count in self.rejects.most_common())
        left_out.append(f"{rejected:,} rejected record{'' if rejected == 1 else 's'} ({codes})")
        left_out = [words for words, count in zip(left_out, (self.copies, rejected), strict=True) if count]
        ending = f"; left out: {', '.join(left_out)}" if left_out else ""
        return f"{self.sentences:,} sentences of {len(self.parts):,} documents{ending}"

    def too_small(self, problem: str, more: bool) -> CoreError:
        """Return the error for a sample that is too small, with the remedy.

        Args:
            problem: description of the problem.
            more: whether the same corpus can provide more sentences; if not, the remedy is a larger corpus.
        """
        remedy = "Raise --sentences: the corpus has more." if more else "Pass more files, with other documents."
        return CoreError("gate.corpus_too_small", problem=problem, read=f"Read: {self.counts()}.", remedy=remedy)


def run_gate_fit(job: GateJob, console: Console) -> None:
    """Sample texts, run the model on them, fit the gate, write the bundle and report the effect of the gate.

    Args:
        job: the job.
        console: receives the output of the command.

    Raises:
        CodedError: an error of the job. Errors that do not depend on the model's results are raised first.
    """
    refuse_bundle("--output", job.output, [*job.corpus, *([job.annotated] if job.annotated else [])])
    info = read_info(find_bundle(job.model).path)
    if info.config.gated:
        raise CoreError("gate.trained_jointly", path=info.path)
    check_gateable(info.config)

    # Imported late, so that the errors above do not require torch.
    from spanmarker_core import load
    from spanmarker_core.bundle.writer import check_output, save_bundle, stored_dtype
    from spanmarker_core.card import card_files, model_card, read_card_facts
    from spanmarker_core.data import read_annotated
    from spanmarker_core.training.fit_gate import fit_gate

    def say(line: str) -> None:
        print_plain(console, line)

    check_output(job.output)
    if Path(job.output).resolve().is_relative_to(info.path.resolve()):
        raise CoreError("bundle.output_inside", path=job.output, bundle=info.path)
    annotated = list(read_annotated(job.annotated, job.scheme)) if job.annotated else None
    began = monotonic()
    model = load(info.path, job.device, gate="off")
    corpus = read_corpus(job, info.config.context, model.packer)
    if (found := len(corpus.parts)) < _LEAST_DOCUMENTS:
        problem = f"the corpus has {found} documents with text, but a gate requires {_LEAST_DOCUMENTS} or more"
        raise corpus.too_small(problem, corpus.more_documents)
    say(f"Read {corpus.counts()}. The model now scores all their spans.")
    dtype = stored_dtype(info.path)
    try:
        fitted = fit_gate(model, Windows.concatenate(corpus.parts), job.target_recall, annotated, dtype, say)
    except CoreError as error:
        if error.code != "gate.too_few_entities":
            raise
        problem = (
            "the model finds {found} entities in the text held out to measure the gate, which requires {limit} or more"
        )
        problem = problem.format(**error.values)
        raise corpus.too_small(problem, corpus.more_documents or corpus.more_sentences) from error
    card_facts = {**read_card_facts(info.path), "bundle_name": Path(job.output).absolute().name}
    card, files = model_card(fitted.config, card_facts), card_files(fitted.config, card_facts)
    digest = save_bundle(job.output, fitted.config, model.network, model.packer.tokenizer, card, dtype, files)
    gate = fitted.config.gate
    assert gate is not None
    kept = next(point["kept"] for point in gate["curve"] if point["threshold"] == gate["threshold"])
    say(
        f"{job.output}: at {gate['threshold']} the gate keeps {kept:.2%} of the spans and {fitted.n_passing:,} of "
        f"{fitted.n_entities:,} entities ({fitted.n_passing / fitted.n_entities:.2%}) in held-out text; "
        f"{monotonic() - began:.0f} s, model {digest[:12]}"
    )
    say("The gate was not part of the training, so it is off by default. Turn it on with `spanmarker tag --gate on`.")


def read_corpus(job: GateJob, context: Context, packer: Packer) -> Corpus:
    """Read sentences of the corpus until there are enough, and pack them as for tagging with the bundle.

    Sentences are numbered across all documents. Equal texts count once: measuring the gate on a copy of a text that it
    was fitted on would overestimate it.

    Args:
        job: the job.
        context: context of a window, as in the bundle.
        packer: packer of the bundle.
    """
    corpus = Corpus()
    seen: set[bytes] = set()
    at_most = max(_DOCUMENT_SENTENCES, int(_DOCUMENT_SHARE * job.sentences))
    for text in _texts(job, corpus.rejects):
        if corpus.sentences >= job.sentences:
            corpus.more_documents = True
            break
        digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
        if digest in seen:
            corpus.copies += 1
            continue
        limit = min(at_most, job.sentences - corpus.sentences)
        bounds = list(islice(split_sentences(text, job.language), limit + 1))
        if len(bounds) > limit:
            corpus.more_sentences = True
            bounds.pop()
        if not bounds:
            continue
        seen.add(digest)
        corpus.parts.append(_pack(packer, context, text, bounds, len(corpus.parts), corpus.sentences))
        corpus.sentences += len(bounds)
    return corpus


def _pack(
    packer: Packer, context: Context, text: str, bounds: list[tuple[int, int]], document: int, number: int
) -> Windows:
    encoded = packer.encode_texts([text[start:end] for start, end in bounds])
    return packer.pack(
        encoded,
        context,
        document=document,
        char_starts=[start for start, _ in bounds],
        sentence_ids=range(number, number + len(bounds)),
    )


def _texts(job: GateJob, rejects: Counter[str]) -> Iterator[str]:
    """Yield texts of the corpus, interleaved from several shards, and count rejected records.

    The shards with the smallest digests at the end of their names are chosen: a sample of the corpus that is always the
    same. A finished shard is replaced by the next one, so a corpus of many small files works too.
    """
    with tempfile.TemporaryDirectory() as folder:
        corpus = with_copies(job.corpus, folder)

        def order(shard: Shard) -> str:
            # The copy of standard input has another path in each run.
            return renamed(replace(shard, source=shard.source.removeprefix(os.path.realpath(folder))), "gate").name[
                -16:
            ]

        found = plan_shards(
            corpus,
            job.format,
            output=absolute(job.output),
            columns=job.columns,
            max_shard_bytes=_SHARD_BYTES,
            job_digest="gate",
        )
        yield from _interleaved(heapq.nsmallest(_SHARDS, found, key=order), job, rejects)


def _interleaved(chosen: list[Shard], job: GateJob, rejects: Counter[str]) -> Iterator[str]:
    waiting = (_shard_texts(shard, job, rejects) for shard in chosen)
    sources = list(islice(waiting, _OPEN_SHARDS))
    while sources:
        for source in list(sources):
            text = next(source, None)
            if text is None:
                sources.remove(source)
                sources += islice(waiting, 1)
            else:
                yield text


def _shard_texts(shard: Shard, job: GateJob, rejects: Counter[str]) -> Iterator[str]:
    for batch in read(shard, job.columns):
        for reject in batch.rejects:
            rejects[reject.code] += max(1, reject.n_documents)  # a damaged file counts as one
        yield from batch.documents["text"].to_pylist()

"""Annotated corpora, jobs that prepare them, and what training sees of the result."""

import io
import json

import numpy as np
from rich.console import Console

from pipelines.jobs.prepare_training import AnnotatedJob
from pipelines.runs.run import run_job
from spanmarker_core.data import Sentence, Span
from spanmarker_core.spans.candidates import candidate_spans
from spanmarker_core.training import TrainingSettings
from spanmarker_core.training.dataset import SentenceWindows, TrainingWindows
from spanmarker_core.training.initialise import encoder_packer
from spanmarker_core.windows.packer import Context

LIMITS = {"max_tokens": 32, "entity_max_length": 4}


def prepare_annotated(inputs, output, encoder, **options) -> str:
    """Run a job with the inline engine; return what it printed."""
    console = Console(file=io.StringIO(), width=200)
    values = {"engine": "inline", **LIMITS, **options}
    run_job(AnnotatedJob(input=list(map(str, inputs)), output=str(output), encoder=str(encoder), **values), console)
    return console.file.getvalue()


def corpus(n_documents=20) -> list[Sentence]:
    """Sentences with nested, crossing, long and twice-labelled entities, words without tokens, long sentences."""
    random = np.random.default_rng(5)
    vocabulary = np.array(["paris", "obama", "the", "of", "zürich", "xyzzy", "\u2063", "disestablish", "a" * 40])
    made = []
    for document in range(n_documents):
        for number in range(int(random.integers(1, 6))):
            n_words = int(random.integers(1, 9) if random.random() < 0.8 else random.integers(30, 60))
            words = random.choice(vocabulary, n_words).tolist()
            starts = random.integers(0, n_words, random.integers(0, 6))
            lengths = random.choice([1, 1, 2, 3, 4, 7], len(starts))
            labels = random.choice(["person", "location", "work"], len(starts))
            found = {
                Span(int(start), min(n_words, int(start + length)), str(label))
                for start, length, label in zip(starts, lengths, labels, strict=True)
            }
            made.append(Sentence(f"doc-{document}", number * 2, words, sorted(found)))
    return made


def write_sentences(path, sentences, extra=()):
    lines = [json.dumps(record(sentence), ensure_ascii=False) for sentence in sentences]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in [*lines, *extra]), encoding="utf-8")
    return path


def record(sentence: Sentence) -> dict:
    entities = [{"start": entity.start, "end": entity.end, "label": entity.label} for entity in sentence.entities]
    ids = {"document_id": sentence.document_id, "sentence_id": sentence.sentence_id}
    return {**ids, "tokens": sentence.words, "entities": entities}


def spans_of(source: TrainingWindows, entity_max_length=LIMITS["entity_max_length"]) -> list[tuple]:
    """What training sees of each window: its tokens, words and candidate spans with their labels, in order."""
    seen = []
    for pool in range(len(source.pool_offsets) - 1):
        windows, gold = source.read(pool)
        assert len(windows) == source.pool_offsets[pool + 1] - source.pool_offsets[pool]
        assert (np.diff(gold.window) >= 0).all()
        spans = candidate_spans(windows, entity_max_length)
        for number in range(len(windows)):
            window = windows.take(np.array([number]))
            words = [
                getattr(window, name).tolist() for name in window.__slots__ if name not in ("document", "word_sentence")
            ]
            breaks = np.flatnonzero(np.diff(window.word_sentence)).tolist()
            mine = gold.window == number
            entities = zip(
                gold.word_start[mine].tolist(), gold.word_end[mine].tolist(), gold.label[mine].tolist(), strict=True
            )
            here = slice(spans.offsets[number], spans.offsets[number + 1])
            at = windows.word_offsets[number]
            ends = zip((spans.first_word[here] - at).tolist(), (spans.last_word[here] + 1 - at).tolist(), strict=True)
            entities = [(start, end, source.labels[label]) for start, end, label in entities]
            assert {entity[:2] for entity in entities} <= set(ends)
            seen.append((words, breaks, entities))
    assert [len(words[1]) for words, *_ in seen] == source.n_tokens.tolist()
    return seen


def in_memory(sentences, encoder, context=None) -> SentenceWindows:
    context = context or Context()
    packer = encoder_packer(encoder, TrainingSettings(**LIMITS))
    return SentenceWindows(sentences, packer, context)


TEXT = "Barack Obama was in Paris. He flew to New York, the Obamaesque \u2063 city of the New York of it at London."


def at(surface: str, label="person", start=0) -> dict:
    start = TEXT.index(surface, start)
    return {"start": start, "end": start + len(surface), "label": label}

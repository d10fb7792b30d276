"""Our models against what span_marker 1.8.1 itself gave (see README.md in this folder)."""

import json
from functools import cache
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
import torch

from spanmarker_core import load
from spanmarker_core.integrations.span_marker import import_span_marker
from spanmarker_core.models.batch import Batch
from spanmarker_core.spans.candidates import candidate_spans
from spanmarker_core.spans.decoding import decode
from spanmarker_core.windows.packer import Context, Windows
from tests.support.variants import first_of_each, some_by_default

GOLDEN = Path(__file__).parent / "golden"
FAMILIES = ("bert", "roberta", "xlm-roberta", "electra")


@cache
def golden(family):
    return json.loads((GOLDEN / family / "golden.json").read_text(encoding="utf-8"))


CASES = [(family, case["name"]) for family in FAMILIES for case in golden(family)["cases"]]
#: By default all cases of one family, and one case of each other.
SOME = some_by_default(
    CASES, [*(case for case in CASES if case[0] == "bert"), *first_of_each(CASES, lambda case: case[0])]
)


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    @cache
    def bundle(family):
        folder = tmp_path_factory.mktemp("imported") / family
        import_span_marker(GOLDEN / family, folder)
        return load(folder)

    return bundle


def pack(model, case) -> Windows:
    """Windows of a case; a word's sentence is its number in the case."""
    sentences = case["sentences"]
    encode = model.packer.encode_words if case["kind"] == "words" else model.packer.encode_texts
    encoded = encode([sentence["input"] for sentence in sentences])
    if case["context"] is None:
        context = Context()
        documents = [[number] for number in range(len(sentences))]
    else:
        context = Context("document", case["context"]["max_prev_context"], case["context"]["max_next_context"])
        order = sorted(range(len(sentences)), key=lambda n: (sentences[n]["document_id"], sentences[n]["sentence_id"]))
        documents = [list(group) for _, group in groupby(order, key=lambda n: sentences[n]["document_id"])]
    parts = [
        model.packer.pack(
            [encoded[n] for n in members],
            context,
            sentence_ids=members,
            char_starts=None if case["kind"] == "words" else [0] * len(members),
        )
        for members in documents
    ]
    return Windows.concatenate(parts)


def blank_words(sentence) -> set[int]:
    """Words that the library's pre-tokenizer makes of nothing but white space."""
    chars = sentence.get("word_chars", [])
    return {word for word, (start, end) in enumerate(chars) if not sentence["input"][start:end].strip()}


def doubled_words(sentence) -> bool:
    """Whether the library sees several words at one place, such as three in "…" (golden/faults.json)."""
    chars = sentence.get("word_chars", [])
    return any(start < end for (start, _), (_, end) in zip(chars[1:], chars, strict=False))


@pytest.mark.parametrize(("family", "name"), SOME)
def test_tokens_spans_and_probabilities(bundles, family, name):
    model = bundles(family)
    facts = golden(family)
    case = next(case for case in facts["cases"] if case["name"] == name)
    assert model.config.labels == facts["labels"]
    assert model.config.max_tokens == facts["model_max_length"]
    windows = pack(model, case)
    spans = candidate_spans(windows, model.config.entity_max_length)
    with torch.no_grad():
        found = model.network(Batch.build(windows, spans)).logits.softmax(-1).numpy()
    window_of_word = np.repeat(np.arange(len(windows)), np.diff(windows.word_offsets))
    compared = 0
    for number, expected in enumerate(case["sentences"]):
        # Ours may share its window with others that the library shows in the same tokens, each in turn.
        (window,) = np.unique(window_of_word[windows.word_sentence == number])
        tokens = windows.token_ids[windows.token_offsets[window] : windows.token_offsets[window + 1]]
        assert tokens.tolist() == expected["input_ids"]
        if doubled_words(expected):
            assert (family, name) == ("xlm-roberta", "texts")
            continue
        rows = np.flatnonzero(windows.word_sentence[spans.first_word] == number)
        ours = {
            (int(windows.word_index[first]), int(windows.word_index[last]) + 1): (int(start), int(end), row)
            for first, last, start, end, row in zip(
                spans.first_word[rows],
                spans.last_word[rows],
                spans.first_token[rows],
                spans.last_token[rows],
                found[rows],
                strict=True,
            )
        }
        theirs = dict(zip(((s, e) for s, e, _, _ in expected["spans"]), expected["probabilities"], strict=True))
        edges = {(s, e): (a, b) for s, e, a, b in expected["spans"]}
        # What we leave out begins or ends at a word of nothing but white space.
        for start, end in theirs.keys() - ours.keys():
            assert {start, end - 1} & blank_words(expected)
        assert ours.keys() <= theirs.keys()
        for span, (first, last, row) in ours.items():
            assert (first, last) == edges[span]
            np.testing.assert_allclose(row, theirs[span], atol=1e-4, rtol=0)
            compared += 1
    assert compared > 50


@pytest.mark.parametrize(("family", "name"), SOME)
def test_entities(bundles, family, name):
    model = bundles(family)
    case = next(case for case in golden(family)["cases"] if case["name"] == name)
    windows = pack(model, case)
    found = decode(model.score(windows), "flat.v1")
    places = "word" if case["kind"] == "words" else "char"
    starts, ends = getattr(found, f"{places}_start"), getattr(found, f"{places}_end")
    excused = []
    for number, sentence in enumerate(case["sentences"]):
        if blank_words(sentence) or doubled_words(sentence):
            # The library's entities begin and end in white space, or share characters (golden/faults.json).
            excused.append(number)
            continue
        ours = sorted(
            (int(starts[i]), int(ends[i]), model.config.labels[found.label[i]], float(found.score[i]))
            for i in np.flatnonzero(found.sentence == number)
        )
        theirs = sorted(
            (e[f"{places}_start_index"], e[f"{places}_end_index"], e["label"], e["score"]) for e in sentence["entities"]
        )
        assert [row[:3] for row in ours] == [row[:3] for row in theirs]
        assert [row[3] for row in ours] == pytest.approx([row[3] for row in theirs], abs=1e-4)
        if case["kind"] == "text":
            for entity in sentence["entities"]:
                assert entity["span"] == sentence["input"][entity["char_start_index"] : entity["char_end_index"]]
    assert len(excused) == {("roberta", "texts"): 3, ("xlm-roberta", "texts"): 1}.get((family, name), 0)


def test_public_calls_give_the_same(bundles):
    model = bundles("bert")
    facts = golden("bert")
    words = next(case for case in facts["cases"] if case["name"] == "words")
    tagged = model.tag_words([sentence["input"] for sentence in words["sentences"]])
    texts = next(case for case in facts["cases"] if case["name"] == "texts")
    tagged_texts = model.tag_text([sentence["input"] for sentence in texts["sentences"]], split=False)
    for sentence, entities in zip(words["sentences"], tagged, strict=True):
        assert [(e.word_start, e.word_end, e.label) for e in entities] == [
            (e["word_start_index"], e["word_end_index"], e["label"]) for e in sentence["entities"]
        ]
    for sentence, entities in zip(texts["sentences"], tagged_texts, strict=True):
        assert [(e.text, e.char_start, e.label) for e in entities] == [
            (e["span"], e["char_start_index"], e["label"]) for e in sentence["entities"]
        ]

import itertools
import json
import pickle
import subprocess
import sys
import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spanmarker_core import Entity, load
from spanmarker_core.default_model import bundled_model_path
from spanmarker_core.errors import CoreError
from tests.support.tiny import FAMILIES, short_of_memory, tiny_bundle

TEXT = "Barack Obama flew to Paris. It was in New York  (U.S.) on the 4th of May 👩‍👩‍👧 with é.\n\nZürich is a city."
WORDS = [
    ["Barack", "Obama", "flew", "to", "Paris", "."],
    ["It", "was", "in", "New", "York"],
    ["Zürich"],
    ["he", "she", "it"],
]


def close(first: list[list[Entity]], second: list[list[Entity]]) -> None:
    for a, b in zip(first, second, strict=True):
        keys = [[(e.label, e.word_start, e.word_end, e.char_start, e.text) for e in x] for x in (a, b)]
        assert keys[0] == keys[1]
        assert [e.score for e in a] == pytest.approx([e.score for e in b], abs=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_text_is_the_exact_slice(family, tmp_path):
    for splitter in ("words.v1", "tokenizer.v1"):
        model = load(tiny_bundle(tmp_path / splitter, family, splitter=splitter))
        entities = model.tag_text([TEXT], threshold=0.0, decoder="all.v1")[0]
        assert len(entities) > 50
        for entity in entities:
            assert TEXT[entity.char_start : entity.char_end] == entity.text == entity.text.strip() != ""


@pytest.mark.parametrize("text", ["", " ", "\n" * 1000, "\u200b\ufeff", "\x00", "\u2063"])
def test_texts_with_nothing_to_find(tiny, text):
    assert tiny.tag_text([text, TEXT, text], threshold=0.9)[::2] in (
        [[], []],
        [tiny.tag_text([text], threshold=0.9)[0]] * 2,
    )


def test_nothing_gives_nothing(tiny):
    assert tiny.tag_text([]) == []
    assert tiny.tag_words([]) == []
    assert tiny.tag_words([[], ["\u2063"]]) == [[], []]


def test_words_and_text_agree(tiny):
    text = "Barack Obama flew to Paris"
    from_text = tiny.tag_text([text], split=False)[0]
    from_words = tiny.tag_words([text.split()])[0]
    assert [(e.label, e.score, e.word_start, e.word_end) for e in from_text] == [
        (e.label, e.score, e.word_start, e.word_end) for e in from_words
    ]
    assert from_text
    assert all(entity.text is None and entity.char_start is None for entity in from_words)


@given(order=st.permutations(range(4)), copies=st.integers(1, 3))
def test_neighbours_in_the_batch_change_nothing(tiny, order, copies):
    alone = [tiny.tag_words([words])[0] for words in WORDS]
    together = tiny.tag_words([WORDS[i] for i in order] * copies)
    close(together, [alone[i] for i in order] * copies)


def test_document_context_depends_on_ids_and_not_on_order(tiny):
    ids = {"document_ids": ["a", "a", "b", "a"], "sentence_ids": [0, 2, 0, 1]}
    tagged = tiny.tag_words(WORDS, context="document", **ids)
    order = [3, 2, 1, 0]
    shuffled = tiny.tag_words(
        [WORDS[i] for i in order],
        context="document",
        **{key: [value[i] for i in order] for key, value in ids.items()},
    )
    close(shuffled, [tagged[i] for i in order])
    alone = tiny.tag_words(WORDS)
    assert [e.score for e in tagged[0]] != [e.score for e in alone[0]]
    # Context never crosses a document: "Zürich" is alone in b.
    close([tagged[2]], [alone[2]])


def test_no_context_equals_a_limit_of_zero(tiny):
    none = tiny.tag_words(WORDS, document_ids=["a"] * 4, context="document", max_prev_context=0, max_next_context=0)
    close(none, tiny.tag_words(WORDS))


def test_a_long_sentence_is_read_to_its_end(tiny):
    words = ["the"] * 500 + ["Zürich"]
    found = tiny.tag_words([words], threshold=0.0, decoder="all.v1")[0]
    starts = {entity.word_start for entity in found}
    assert starts == set(range(501))
    assert {(e.word_start, e.word_end) for e in found} == {
        (s, e) for s in range(501) for e in range(s + 1, min(s + 4, 501) + 1)
    }


def test_no_score_below_its_threshold(tiny):
    entities = tiny.tag_words(WORDS, threshold=0.6, decoder="all.v1")
    assert all(entity.score >= 0.6 for sentence in entities for entity in sentence)
    by_label = tiny.tag_words(WORDS, threshold={"person": 0.1}, decoder="all.v1")
    assert {entity.label for sentence in by_label for entity in sentence} == {"person"}


def test_coded_errors(tiny):
    for call, code in [
        (lambda: tiny.tag_text([1]), "call.not_text"),
        (lambda: tiny.tag_text([], language=None), "call.bad_language"),
        (lambda: tiny.tag_text(["a"], language="klingon"), "call.bad_language"),
        (lambda: tiny.tag_text(["a"], sentence_breaks="line"), "call.unknown_option"),
        (lambda: tiny.tag_words("one text"), "call.not_a_list"),
        (lambda: tiny.tag_words(["not words"]), "call.not_words"),
        (lambda: tiny.tag_words([["a", 1]]), "call.not_words"),
        (lambda: tiny.tag_words(WORDS, document_ids=["a"]), "call.lengths_differ"),
        (lambda: tiny.tag_words(WORDS, context="corpus"), "call.unknown_option"),
        (lambda: tiny.tag_words(WORDS, decoder="best"), "call.unknown_option"),
        (lambda: tiny.tag_words(WORDS, threshold=7), "call.bad_threshold"),
        (lambda: tiny.tag_words(WORDS, max_prev_context=1), "call.limit_without_context"),
        (lambda: tiny.tag_words(WORDS, context="sentence", max_next_context=1), "call.limit_without_context"),
        (lambda: tiny.tag_words(WORDS, context="document", max_prev_context=-1), "call.bad_limit"),
        (lambda: tiny.tag_words(WORDS, context="document", max_next_context="1"), "call.bad_limit"),
        (lambda: tiny.tag_words(WORDS, sentence_ids=[0, 1, 2, 3]), "call.ids_without_documents"),
        (lambda: tiny.tag_words([None]), "call.not_words"),
        (lambda: tiny.tag_text(None), "call.not_a_list"),
        (lambda: tiny.tag_words(7), "call.not_a_list"),
        (lambda: tiny.tag_words([["a", "\ud800"]]), "call.half_a_character"),
        (lambda: tiny.tag_text(["a \udfff"]), "call.half_a_character"),
    ]:
        with pytest.raises(CoreError) as caught:
            call()
        assert caught.value.code == code
        again = pickle.loads(pickle.dumps(caught.value))  # errors cross processes
        assert (str(again), again.code, again.values) == (str(caught.value), code, caught.value.values)


def test_one_text_has_one_list_of_entities(tiny):
    text = "Barack Obama flew to Paris. He was in New York."
    every = {"decoder": "all.v1", "threshold": 0}
    assert tiny.tag_text(text, **every) == tiny.tag_text([text], **every)[0] != []
    given = [(0, 12), (13, 27)]
    assert tiny.tag_text(text, sentences=given, **every) == tiny.tag_text([text], sentences=[given], **every)[0]
    assert tiny.tag_text("") == []


def test_a_model_says_what_it_is(tiny, tiny_bundle):
    assert tiny.labels == [label for label in tiny.config.labels if label != "O"]
    for part in (tiny.config.architecture, f"{len(tiny.labels)} labels: {tiny.labels[0]}", "cpu", str(tiny_bundle)):
        assert part in repr(tiny)


def test_without_a_name_the_bundled_model_is_loaded():
    assert load().bundle.path == bundled_model_path()


def test_lines_are_sentences_of_their_own(tiny):
    texts = ["Obama\nParis\nLondon"]
    found = {
        breaks: {e.sentence for e in tiny.tag_text(texts, sentence_breaks=breaks, decoder="all.v1", threshold=0)[0]}
        for breaks in ("auto", "lines")
    }
    assert found == {"auto": {0}, "lines": {0, 1, 2}}


def test_takes_any_iterable(tiny):
    assert tiny.tag_text(text for text in [TEXT]) == tiny.tag_text([TEXT])
    assert tiny.tag_words(tuple(words) for words in WORDS) == tiny.tag_words(WORDS)


def test_a_small_call_is_quick(tiny):
    tiny.tag_text(["warm"])
    took = []
    for _ in range(10):
        began = time.process_time()
        tiny.tag_text(["Obama flew to Paris."])
        took.append(time.process_time() - began)
    assert min(took) < 0.1


@pytest.mark.parametrize(
    "message",
    [
        "CUDA out of memory.",
        "DefaultCPUAllocator: can't allocate memory: you tried to",
        "could not create a primitive",  # all that oneDNN says
    ],
)
def test_out_of_memory_halves_the_batches_that_are_left_and_loses_nothing(tiny, monkeypatch, message):
    words = [["the"] * (1 + number % 40) for number in range(200)]
    expected = tiny.tag_words(words, threshold=0.2)
    sizes = short_of_memory(tiny, monkeypatch, 150, message)
    before = tiny.work["out_of_memory"]
    close(tiny.tag_words(words, threshold=0.2), expected)
    failed = [size for size in sizes if size > 150]
    assert len(failed) == tiny.work["out_of_memory"] - before > 0
    # Each failure halves the budget, and what comes later keeps to it: with a budget of 1024, thrice.
    assert len(failed) == 3
    assert all(later <= size // 2 for size, later in itertools.pairwise(failed))
    assert sizes.index(failed[-1]) == 2


def test_out_of_memory_on_a_single_window_goes_up(tiny, monkeypatch):
    short_of_memory(tiny, monkeypatch, 10)
    with pytest.raises(torch.OutOfMemoryError):
        tiny.tag_words([*WORDS, ["the"] * 30])


def test_a_single_window_that_onednn_has_no_page_for_goes_without_it(tiny, monkeypatch):
    expected = tiny.tag_words(WORDS, threshold=0.2)
    forward, used = tiny.network.forward, []

    def without_pages(*args, **kwargs):
        used.append(torch.backends.mkldnn.enabled)
        if used[-1]:
            raise RuntimeError("could not create a primitive")
        return forward(*args, **kwargs)

    monkeypatch.setattr(tiny.network, "forward", without_pages)
    close(tiny.tag_words(WORDS, threshold=0.2), expected)
    # Down to one window with it, and from there on without: no window is tried with it again.
    assert used == sorted(used, reverse=True)
    assert used.count(False) == len(WORDS)
    assert torch.backends.mkldnn.enabled


def test_other_faults_are_not_taken_for_want_of_memory(tiny, monkeypatch):
    sizes = short_of_memory(tiny, monkeypatch, 10, "mat1 and mat2 shapes cannot be multiplied")
    with pytest.raises(RuntimeError, match="shapes"):
        tiny.tag_words(WORDS)
    assert len(sizes) == 1


_LIMITED = """
import json, resource, sys, torch
from spanmarker_core import load
from spanmarker_core.inference import scorer
torch.set_num_threads(1)
model = load(sys.argv[1])
scorer.BATCH_TOKENS["cpu"] = 1 << 18
text = sys.stdin.read()
model.tag_text([text[:5000]])
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (60 << 20),) * 2)
found = model.tag_text([text])[0]
print(json.dumps([model.work["out_of_memory"], [[e.label, e.char_start, e.char_end, e.score] for e in found]]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, and needs a limit of memory that is kept")
def test_a_process_that_may_have_no_more_memory_tags_in_smaller_batches(tiny, tiny_bundle):
    text = "Barack Obama flew to Paris and New York was in London. " * 4000
    ran = subprocess.run(
        [sys.executable, "-c", _LIMITED, str(tiny_bundle)], input=text, stdout=subprocess.PIPE, text=True, check=True
    )
    halvings, found = json.loads(ran.stdout)
    assert halvings > 0
    expected = [[e.label, e.char_start, e.char_end, e.score] for e in tiny.tag_text([text])[0]]
    assert [row[:3] for row in found] == [row[:3] for row in expected]
    assert [row[3] for row in found] == pytest.approx([row[3] for row in expected], abs=1e-5)

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spanmarker_core.spans.candidates import candidate_spans, place_entities
from spanmarker_core.windows.packer import Context
from tests.spanmarker_core.windows.test_packer import CONTEXT, PACKERS

WORD = st.sampled_from(["the", "of", "paris", "\u2063", "disestablish", "q" * 40])


@given(st.lists(st.lists(WORD, max_size=20), max_size=6), CONTEXT, st.sampled_from([24, 48]))
def test_an_entity_is_placed_where_it_is_a_candidate_span(sentences, context, size):
    packer = PACKERS[size]
    windows = packer.pack(packer.encode_words(sentences), context)
    entities = [
        (sentence, start, start + length)
        for sentence, words in enumerate(sentences)
        for start in range(len(words))
        for length in range(1, packer.entity_max_length + 1)  # some are beyond the end of the sentence
    ]
    spans = candidate_spans(windows, packer.entity_max_length)
    window_of_span = np.repeat(np.arange(len(windows)), np.diff(spans.offsets))
    first, last = spans.first_word, spans.last_word
    start = windows.word_offsets[window_of_span]
    places = zip(window_of_span.tolist(), (first - start).tolist(), (last + 1 - start).tolist(), strict=True)
    names = windows.word_sentence[first], windows.word_index[first], windows.word_index[last] + 1
    expected = dict(zip(zip(*(values.tolist() for values in names), strict=True), places, strict=True))

    # As in training in memory, and as in the preparation of training data.
    lengths = np.cumsum([0, *map(len, sentences)])
    for key in (lambda sentence, word: (sentence.astype(np.int64) << 32) + word, lambda s, word: lengths[s] + word):
        sentence, begin, end = np.array(entities, np.int64).reshape(-1, 3).T
        keys = key(windows.word_sentence, windows.word_index)
        placed = place_entities(windows, keys, key(sentence, begin), end - begin)
        found = zip(placed.window.tolist(), placed.word_start.tolist(), placed.word_end.tolist(), strict=True)
        assert [expected[entities[number]] for number in placed.entity.tolist()] == list(found)
        assert sorted([*placed.entity.tolist(), *placed.beyond.tolist()]) == list(range(len(entities)))
        assert len(placed.entity) == len(expected)
        assert (np.diff(placed.window) >= 0).all()


def test_entities_of_other_windows_are_left_out():
    packer = PACKERS[24]
    windows = packer.pack(packer.encode_words([["the", "paris"], ["of"]]), Context())
    part = windows.take(np.array([1]))
    keys = part.word_sentence.astype(np.int64) * 10 + part.word_index
    placed = place_entities(part, keys, np.array([-1, 0, 10, 77]), np.array([1, 2, 1, 1]))
    assert (placed.entity.tolist(), placed.window.tolist(), placed.beyond.tolist()) == ([2], [0], [])
    nothing = windows.take(np.zeros(0, np.int64))
    placed = place_entities(nothing, np.zeros(0, np.int64), np.array([0]), np.array([1]))
    assert (placed.entity.tolist(), placed.beyond.tolist()) == ([], [])

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanmarker_core.arrays.ragged import ragged_offsets
from spanmarker_core.bundle.config import packer_of
from spanmarker_core.errors import CoreError
from spanmarker_core.spans.candidates import candidate_spans
from spanmarker_core.windows.encoded import EncodedSentences
from spanmarker_core.windows.packer import Context, Packer, Windows
from tests.support.tiny import tiny_model


def tiny_packer(family="bert", **overrides) -> Packer:
    config, _, tokenizer = tiny_model(family, **overrides)
    return packer_of(config, tokenizer)


PACKERS = {size: tiny_packer(max_tokens=size) for size in (16, 24, 48)}
WORD = st.sampled_from(["the", "a", "Paris", "xyz", "\u2063", "q" * 7, "日"])
DOCUMENT = st.lists(st.lists(WORD, max_size=60), max_size=6)
LIMIT = st.none() | st.integers(0, 2)
CONTEXT = st.sampled_from([Context(), Context("block")]) | st.builds(Context, st.just("document"), LIMIT, LIMIT)


def tokens_of(windows: Windows, window: int) -> np.ndarray:
    return windows.token_ids[windows.token_offsets[window] : windows.token_offsets[window + 1]]


@given(DOCUMENT, CONTEXT, st.sampled_from([16, 24, 48]))
def test_invariants(document, context, size):
    packer = PACKERS[size]
    encoded = packer.encode_words(document)
    windows = packer.pack(encoded, context)
    owned = []
    for window in range(len(windows)):
        tokens = tokens_of(windows, window)
        assert len(tokens) <= size
        assert tokens[0] == packer.prefix[0]
        assert tokens[-1] == packer.suffix[0]
        for word in range(windows.word_offsets[window], windows.word_offsets[window + 1]):
            sentence = encoded[windows.word_sentence[word]]
            index = windows.word_index[word]
            expected = sentence.token_ids[sentence.word_token_start[index] : sentence.word_token_end[index]]
            assert tokens[windows.word_token_start[word] : windows.word_token_end[word]].tolist() == expected.tolist()
            if windows.word_tag[word]:
                owned.append((int(windows.word_sentence[word]), int(index)))
    # Every word of every sentence is tagged in exactly one window.
    assert sorted(owned) == [(s, w) for s, words in enumerate(document) for w in range(len(words))]


@given(DOCUMENT, CONTEXT, st.sampled_from([24, 48]))
def test_every_candidate_is_in_exactly_one_window(document, context, size):
    packer = PACKERS[size]
    encoded = packer.encode_words(document)
    windows = packer.pack(encoded, context)
    spans = candidate_spans(windows, packer.entity_max_length)
    found = sorted(
        (int(windows.word_sentence[f]), int(windows.word_index[f]), int(windows.word_index[last]) + 1)
        for f, last in zip(spans.first_word, spans.last_word, strict=True)
    )
    expected = []
    for number, sentence in enumerate(encoded):
        has_token = sentence.word_token_end > sentence.word_token_start
        for start in range(len(has_token)):
            for end in range(start + 1, min(start + packer.entity_max_length, len(has_token)) + 1):
                fits = sentence.word_token_end[end - 1] - sentence.word_token_start[start] <= packer.capacity // 2
                if has_token[start] and has_token[end - 1] and fits:
                    expected.append((number, start, end))
    assert len(found) == len(set(found))
    assert set(expected) <= set(found)


def test_candidates_by_hand():
    packer = tiny_packer(entity_max_length=2)
    windows = packer.pack(packer.encode_words([["the", "paris", "of", "a", "the"]]), Context())
    spans = candidate_spans(windows, 2)
    pairs = list(zip(spans.first_word.tolist(), spans.last_word.tolist(), strict=True))
    assert pairs == [(0, 0), (0, 1), (1, 1), (1, 2), (2, 2), (2, 3), (3, 3), (3, 4), (4, 4)]
    # [CLS] is token 0, and each of these words is one token.
    assert spans.first_token.tolist() == [first + 1 for first, _ in pairs]


def test_a_word_without_tokens_is_inside_spans_but_never_at_their_edge():
    packer = tiny_packer()
    encoded = packer.encode_words([["new", "\u2063", "york"]])
    assert (encoded[0].word_token_end - encoded[0].word_token_start).tolist() == [1, 0, 1]
    spans = candidate_spans(packer.pack(encoded, Context()), 4)
    assert list(zip(spans.first_word, spans.last_word, strict=True)) == [(0, 0), (0, 2), (2, 2)]


def sentences_of(windows: Windows) -> list[list[int]]:
    """The sentences that each window has words of."""
    parts = np.split(windows.word_sentence, windows.word_offsets[1:-1])
    return [np.unique(part).tolist() for part in parts]


def three_sentences(packer):
    """Sentences of five tokens each, and the token of each."""
    words = ("a", "of", "the")
    return packer.encode_words([[word] * 5 for word in words]), [packer.tokenizer.token_to_id(word) for word in words]


def test_context_is_taken_next_then_previous_until_the_window_is_full():
    packer = tiny_packer(max_tokens=16)  # 14 tokens of text
    encoded, (a, of, the) = three_sentences(packer)
    windows = packer.pack(encoded, Context("document"))
    # The second sentence and the third are shown in the same tokens.
    assert sentences_of(windows) == [[0], [1, 2]]
    assert tokens_of(windows, 0)[1:-1].tolist() == [a] * 5 + [of] * 5 + [the] * 4
    assert tokens_of(windows, 1)[1:-1].tolist() == [a] * 4 + [of] * 5 + [the] * 5
    windows = packer.pack(encoded, Context("document", max_prev=0, max_next=1))
    assert tokens_of(windows, 1)[1:-1].tolist() == [of] * 5 + [the] * 5
    assert tokens_of(packer.pack(encoded, Context()), 1)[1:-1].tolist() == [of] * 5


def test_blocks_have_a_margin_of_context():
    packer = tiny_packer(max_tokens=16)  # 14 tokens of text, a margin of one
    encoded, (a, of, the) = three_sentences(packer)
    windows = packer.pack(encoded, Context("block"))
    assert sentences_of(windows) == [[0, 1], [2]]
    assert tokens_of(windows, 0)[1:-1].tolist() == [a] * 5 + [of] * 5 + [the]
    assert tokens_of(windows, 1)[1:-1].tolist() == [of] + [the] * 5
    assert windows.word_token_start.tolist() == [*range(1, 11), *range(2, 7)]
    assert windows.word_index.tolist() == [*range(5)] * 3
    assert windows.word_tag.all()


@pytest.mark.parametrize("policy", ["document", "block"])
def test_a_document_that_fits_is_one_window(policy):
    packer = tiny_packer(max_tokens=17)
    windows = packer.pack(three_sentences(packer)[0], Context(policy))
    assert len(windows) == 1
    assert len(tokens_of(windows, 0)) == 17


def test_spans_of_a_shared_window_stay_in_their_sentences():
    packer = tiny_packer(entity_max_length=2)
    windows = packer.pack(packer.encode_words([["the", "paris"], [], ["of"], ["a", "the"]]), Context("block"))
    spans = candidate_spans(windows, 2)
    pairs = list(zip(spans.first_word.tolist(), spans.last_word.tolist(), strict=True))
    assert pairs == [(0, 0), (0, 1), (1, 1), (2, 2), (3, 3), (3, 4), (4, 4)]


def test_a_word_too_long_for_a_window_becomes_one_unknown_token_and_is_counted():
    packer = tiny_packer("roberta", max_tokens=32)
    encoded = packer.encode_words([["the", "x" * 100_000, "of"]])[0]
    assert encoded.long_words.tolist() == [False, True, False]
    assert (encoded.word_token_end - encoded.word_token_start).tolist() == [1, 1, 1]
    assert encoded.token_ids[1] == packer.unknown_id
    alone = packer.encode_words([["the", "of"]])[0]
    assert encoded.token_ids[[0, 2]].tolist() == alone.token_ids.tolist()


def test_special_tokens_in_the_text_are_text():
    packer = tiny_packer()
    ids = packer.encode_texts(["a [SEP] b <start> [CLS]"])[0].token_ids.tolist()
    assert not {2, 3} & set(ids)
    assert max(ids) < packer.tokenizer.get_vocab_size()


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta"])
@pytest.mark.parametrize("splitter", ["words.v1", "tokenizer.v1"])
@pytest.mark.parametrize(
    "text",
    [
        " Müller  flew,\tto Zürich. ",
        "a\nb\u00a0c",
        "\u1109\u1165\u110b\u116e\u11af \u1112\u1161\u11ab\u1100\u1173\u11af Paris",
        "cafe\u0301, \uff76\uff9e x",
        "a … b",
        "\u1112\u1161\u11ab\u1100\u1173\u11af ﬁne ½",
        "e\u0301a \u2063 b",
        "👩‍👩‍👧 ok",
        "مرحبا بالعالم",
        "",
    ],
)
def test_word_characters_have_no_space_at_their_edges_and_are_in_order(family, splitter, text):
    packer = tiny_packer(family, splitter=splitter)
    encoded = packer.encode_texts([text])[0]
    position = 0
    for start, end in zip(encoded.word_char_start.tolist(), encoded.word_char_end.tolist(), strict=True):
        surface = text[start:end]
        assert surface == surface.strip()
        assert position <= start <= end <= len(text)
        position = end
    surfaces = [text[s:e] for s, e in zip(encoded.word_char_start, encoded.word_char_end, strict=True)]
    # Tokenizers drop what has no width; nothing else but white space lies outside the words.
    dropped = "\u2063" if splitter == "tokenizer.v1" else ""
    assert visible("".join(surfaces), dropped) == visible(text, dropped)


def visible(text: str, dropped: str) -> str:
    return "".join(text.replace(dropped, "").split())


def test_take_and_concatenate():
    packer = PACKERS[24]
    windows = packer.pack(packer.encode_words([["the"] * 50, ["a", "of"], ["q" * 7]]), Context())
    order = np.arange(len(windows))[::-1]
    back = windows.take(order).take(order)
    joined = Windows.concatenate([windows.take(np.array([i])) for i in range(len(windows))])
    for name in Windows.__slots__:
        assert getattr(back, name).tolist() == getattr(windows, name).tolist()
        assert getattr(joined, name).tolist() == getattr(windows, name).tolist()


@given(st.lists(DOCUMENT, max_size=3), CONTEXT, st.sampled_from([16, 48]), st.data())
def test_any_part_of_a_plan_gives_its_windows(documents, context, size, data):
    """Windows of many documents, made a part at a time, are those of each document alone."""
    packer = PACKERS[size]
    encoded = [packer.encode_words(document) for document in documents]
    joined = EncodedSentences.join(encoded)
    edges = ragged_offsets(np.array([len(document) for document in documents], np.int64))
    numbers = np.array([number for document in documents for number in range(len(document))], np.int64)
    plan = packer.plan(joined.token_offsets, edges, context)
    cut = data.draw(st.integers(0, len(plan)))
    found = Windows.concatenate(
        [
            packer.windows(joined, part, sentence_ids=numbers, char_starts=100 * numbers)
            for part in (plan[:cut], plan[cut:])
        ]
    )
    nothing = packer.pack([], context)
    expected = Windows.concatenate(
        [nothing]
        + [
            packer.pack(document, context, document=number, char_starts=[100 * n for n in range(len(document))])
            for number, document in enumerate(encoded)
        ]
    )
    for name in Windows.__slots__:
        assert getattr(found, name).tolist() == getattr(expected, name).tolist(), name
        assert getattr(found, name).dtype == getattr(expected, name).dtype, name


@pytest.mark.parametrize("limits", [(None, 1), (0, None)])
@pytest.mark.parametrize("policy", ["sentence", "block"])
def test_limits_are_for_documents_only(policy, limits):
    with pytest.raises(CoreError, match=r"call\.limit_without_context"):
        Context(policy, *limits)


def test_words_that_share_characters_are_one_word():
    packer = tiny_packer("xlm-roberta", splitter="tokenizer.v1")
    encoded = packer.encode_texts(["a … b"])[0]
    assert list(zip(encoded.word_char_start, encoded.word_char_end, strict=True)) == [(0, 1), (2, 3), (4, 5)]


def test_context_over_thousands_of_sentences_without_tokens_is_quick():
    packer = tiny_packer()
    encoded = packer.encode_words([["\u2063"]] * 20_000 + [["the"]])
    began = time.monotonic()
    windows = packer.pack(encoded, Context("document"))
    assert time.monotonic() - began < 5
    assert len(windows) == 1
    assert windows.word_tag.sum() == 20_001
    assert tokens_of(windows, 0)[1:-1].tolist() == encoded[-1].token_ids.tolist()


def test_words_of_many_tokens_lose_no_candidate_that_fits():
    packer = PACKERS[48]  # 46 tokens of text
    encoded = packer.encode_words([["q" * 20] * 12])[0]
    assert encoded.word_token_end[0] == 20
    windows = packer.pack([encoded], Context())
    spans = candidate_spans(windows, packer.entity_max_length)
    found = {
        (int(windows.word_index[a]), int(windows.word_index[b]))
        for a, b in zip(spans.first_word, spans.last_word, strict=True)
    }
    assert found == {(i, j) for i in range(12) for j in range(i, min(i + 2, 12))}

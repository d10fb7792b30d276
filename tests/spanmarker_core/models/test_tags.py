"""The sequence head: joined tags against seqeval, words by hand, and entities that come back whole."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities

from spanmarker_core import load
from spanmarker_core.arrays.ragged import ragged_offsets
from spanmarker_core.data.records import Sentence
from spanmarker_core.models.batch import Batch
from spanmarker_core.models.tags import TagHead, join_tags
from spanmarker_core.models.word_states import range_max, word_maxima
from spanmarker_core.spans.candidates import Spans
from spanmarker_core.text.tag_schemes import Span
from spanmarker_core.training import TrainingSettings, train
from tests.spanmarker_core.models.test_crf import all_chains
from tests.support.training import write_encoder
from tests.support.variants import some_by_default

TYPES = ["LOC", "PER", "ORG"]


def bio(tag):
    return "O" if tag == 0 else f"{'BI'[(tag - 1) % 2]}-{TYPES[(tag - 1) // 2]}"


@given(st.lists(st.lists(st.integers(0, 6), max_size=9), max_size=5))
def test_joined_tags_are_seqevals(sentences):
    runs = ragged_offsets(np.array([len(s) for s in sentences], np.int64))
    tags = np.array([tag for sentence in sentences for tag in sentence], np.int64)
    expected = [
        (begin + first, begin + last, TYPES.index(kind))
        for begin, sentence in zip(runs.tolist(), sentences, strict=False)
        for kind, first, last in get_entities([bio(tag) for tag in sentence])
    ]
    whole = np.zeros(len(sentences), np.bool_)
    assert list(zip(*(column.tolist() for column in join_tags(tags, runs, whole)), strict=True)) == expected


@given(st.lists(st.tuples(st.lists(st.integers(0, 6), max_size=6), st.booleans()), max_size=5))
def test_what_goes_on_at_a_cut_begins_nothing(sentences):
    """Against the tags with what goes on at a run's first word taken away; runs without a word say nothing."""
    tags, whole, runs = [], [], ragged_offsets(np.array([len(s) for s, _ in sentences], np.int64))
    for sentence, is_cut in sentences:
        n = 0
        if is_cut and sentence and sentence[0] > 0 and sentence[0] % 2 == 0:
            n = next((i for i, tag in enumerate(sentence) if tag != sentence[0]), len(sentence))
        tags += sentence
        whole += [0] * n + sentence[n:]
    expected = join_tags(np.array(whole, np.int64), runs, np.zeros(len(sentences), np.bool_))
    found = join_tags(np.array(tags, np.int64), runs, np.array([is_cut for _, is_cut in sentences], np.bool_))
    assert [column.tolist() for column in found] == [column.tolist() for column in expected]


@given(st.integers(1, 40), st.integers(0, 30), st.integers(0, 2**32 - 1), st.integers(0, 5))
def test_range_max_is_the_maximum_of_each_range(n, n_ranges, seed, more):
    random = np.random.default_rng(seed)
    rows = torch.from_numpy(random.normal(size=(n, 3))).requires_grad_()
    edges = np.sort(random.integers(0, n, (2, n_ranges)), axis=0)
    longest = min(n, int((edges[1] - edges[0]).max(initial=0)) + 1 + more)
    found = range_max(rows, *torch.from_numpy(edges), longest)
    weights = torch.from_numpy(random.normal(size=(n_ranges, 3)))
    (gradient,) = torch.autograd.grad((found * weights).sum(), rows)
    expected = torch.stack([rows[a : b + 1].amax(0) for a, b in edges.T]) if n_ranges else rows[:0]
    (expected_gradient,) = torch.autograd.grad((expected * weights).sum(), rows)
    assert torch.equal(found, expected)
    torch.testing.assert_close(gradient, expected_gradient)


def batch_by_hand(first_token, last_token, runs, owned, n_tokens, continues=None, has_token=None):
    whole, yes = np.zeros(len(runs) - 1, np.bool_), np.ones(len(first_token), np.bool_)
    none = np.zeros(0, np.int64)
    spans = Spans(np.zeros(2, np.int64), none, none, none, none)
    return Batch(
        torch.zeros(n_tokens, dtype=torch.int64),
        np.array([0, n_tokens]),
        torch.tensor(first_token),
        torch.tensor(last_token),
        spans,
        np.array(runs),
        whole if continues is None else np.array(continues),
        np.array(owned),
        yes if has_token is None else np.array(has_token),
    )


def test_word_maxima_by_hand():
    """Words of two tokens, of one, and of none between these two, which Batch gives a last token before its first."""
    states = torch.tensor([[9.0, 9.0], [1.0, 5.0], [4.0, 2.0], [3.0, 7.0], [8.0, 8.0]])
    found = word_maxima(states, torch.tensor([1, 3, 3]), torch.tensor([2, 2, 3]))
    assert found.tolist() == [[4.0, 5.0], [4.0, 7.0], [3.0, 7.0]]
    assert word_maxima(states, torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64)).shape == (0, 2)


def head_by_hand(kind):
    """Two types; a word's state is its tags' scores."""
    head = TagHead(5, 2, kind).double().eval()
    with torch.no_grad():
        head.output.weight.copy_(torch.eye(5))
    return head


def test_softmax_head_by_hand():
    """B-0 I-0 | I-1 B-1 in two sentences. The words of the first are 2 tokens and 1; word 2 is not owned."""
    high = np.log(6.0)  # against four of 1: 6/10
    states = torch.zeros(6, 5, dtype=torch.float64)
    states[1, 1] = states[3, 2] = states[4, 4] = states[5, 3] = high
    batch = batch_by_hand([1, 3, 4, 5], [2, 3, 4, 5], [0, 2, 4], [True, True, False, True], 6)
    head = head_by_hand("softmax")
    emissions = head.emissions(states, batch)
    assert emissions.shape == (4, 5)
    found = head.decode(emissions, batch)
    assert [column.tolist() for column in found[:3]] == [[0, 3], [1, 3], [0, 1]]
    np.testing.assert_allclose(found.probability, [0.36, 0.6])
    tags, chains = torch.tensor([1, 0, -100, 3]), np.array([0, 0, -1, 1])
    expected = -np.log(0.6) - np.log(0.1) - np.log(0.6)
    assert float(head.loss(emissions, tags, chains).detach()) == pytest.approx(expected)
    assert head.units(tags, chains) == 3


def test_crf_head_by_hand():
    """The same words, the last with 2 for O, all owned; without transitions, and where B-1 can't follow I-1."""
    head = head_by_hand("crf")
    states = torch.zeros(6, 5, dtype=torch.float64)
    states[1, 1] = states[3, 2] = states[4, 4] = states[5, 3] = np.log(6.0)
    states[5, 0] = np.log(2.0)
    batch = batch_by_hand([1, 3, 4, 5], [2, 3, 4, 5], [0, 2, 4], [True] * 4, 6)
    emissions = head.emissions(states, batch)
    found = head.decode(emissions, batch)
    assert [column.tolist() for column in found[:3]] == [[0, 2, 3], [1, 2, 3], [0, 1, 1]]
    np.testing.assert_allclose(found.probability, [0.36, 0.6, 6 / 11])
    tags, chains = torch.tensor([1, 0, -100, 3]), np.array([0, 0, -1, 1])
    assert head.units(tags, chains) == 2
    expected = -np.log(0.6) - np.log(0.1) - np.log(6 / 11)
    assert float(head.loss(emissions, tags, chains).detach()) == pytest.approx(expected)
    with torch.no_grad():
        head.crf.transitions[4, 3] = -50.0
    found = head.decode(emissions, batch)
    # Of the second sentence's chains, of 10 · 11 in all without I-1 B-1's 36, I-1 O is best with 6 · 2; of all chains
    # with I-1, 6 · 11, the one is gone.
    assert [column.tolist() for column in found[:3]] == [[0, 2], [1, 2], [0, 1]]
    np.testing.assert_allclose(found.probability, [36 / 99, (66 - 36) / (110 - 36)], rtol=1e-6)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.sampled_from(["softmax", "crf"]), st.integers(0, 999))
def test_words_without_a_token_change_nothing(lengths, kind, seed):
    """Entities, their probabilities and the loss are those of the words with a token alone, wherever the others are."""
    torch.manual_seed(seed)
    head = TagHead(5, 2, kind).double().eval()
    torch.nn.init.normal_(head.output.weight, std=2.0)
    if head.crf is not None:
        torch.nn.init.normal_(head.crf.transitions)
    random = np.random.default_rng(seed)
    n, runs = sum(lengths), ragged_offsets(np.array(lengths))
    has_token, owned = random.random(n) < 0.6, random.random(n) < 0.8
    continues = random.random(len(lengths)) < 0.5
    batch = batch_by_hand(range(n), range(n), runs, owned, n, continues, has_token)
    emissions = head.emissions(torch.randn(n, 5, dtype=torch.float64), batch)
    found = head.decode(emissions, batch)
    words = np.flatnonzero(has_token)
    short_runs = ragged_offsets(has_token)[runs]
    short = batch_by_hand(range(len(words)), range(len(words)), short_runs, owned[words], len(words), continues)
    expected = head.decode(emissions[has_token], short)
    assert found.first_word.tolist() == words[expected.first_word].tolist()
    assert found.last_word.tolist() == words[expected.last_word].tolist()
    assert found.type_number.tolist() == expected.type_number.tolist()
    np.testing.assert_allclose(found.probability, expected.probability, rtol=1e-9)
    tags = torch.where(torch.from_numpy(has_token), torch.randint(5, (n,)), -100)
    numbers = np.where(has_token, np.repeat(np.cumsum(np.diff(short_runs) > 0) - 1, lengths), -1)
    assert head.units(tags, numbers) == head.units(tags[words], numbers[words])
    torch.testing.assert_close(
        head.loss(emissions, tags, numbers), head.loss(emissions[words], tags[words], numbers[words])
    )


def test_only_sentences_with_an_entity_are_summed_over(monkeypatch):
    head = head_by_hand("crf")
    emissions = torch.zeros(9, 5, dtype=torch.float64)
    emissions[:, 0] = 3.0
    batch = batch_by_hand(range(9), range(9), [0, 3, 5, 9], [True] * 9, 9)
    asked, log_probability = [], head.crf.log_probability

    def spy(emissions, tags, offsets, first, last):
        asked.append((offsets.tolist(), first.tolist(), last.tolist()))
        return log_probability(emissions, tags, offsets, first, last)

    monkeypatch.setattr(head.crf, "log_probability", spy)
    assert len(head.decode(emissions, batch).first_word) == 0
    emissions[[1, 6, 7, 8], [1, 3, 4, 1]] = 9.0
    found = head.decode(emissions, batch)
    assert found.first_word.tolist() == [1, 6, 8]
    assert asked == [([0], [], []), ([0, 3, 7], [1, 4, 6], [1, 5, 6])]
    # Nothing follows anything else rather, so that an entity's probability is the product of its tags'.
    tag = np.exp(9) / (np.exp(9) + np.exp(3) + 3)
    np.testing.assert_allclose(found.probability[[0, 2]], tag, rtol=1e-9)
    np.testing.assert_allclose(found.probability[1], tag**2, rtol=1e-9)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.sampled_from(["softmax", "crf"]), st.integers(0, 999))
def test_probability_of_an_entity_is_that_of_its_tags(lengths, kind, seed):
    """Against marginals of one word (a span of one), and for one word a sentence against the softmax."""
    torch.manual_seed(seed)
    head = TagHead(4, 1, kind).double().eval()
    torch.nn.init.normal_(head.output.weight, std=2.0)
    if head.crf is not None:
        torch.nn.init.normal_(head.crf.transitions)
    n = sum(lengths)
    runs = ragged_offsets(np.array(lengths))
    batch = batch_by_hand(range(n), range(n), runs, [True] * n, n)
    emissions = head.emissions(torch.randn(n, 4, dtype=torch.float64), batch)
    found = head.decode(emissions, batch)
    for first, last, kind_number, probability in zip(*(column.tolist() for column in found), strict=True):
        start = runs[np.searchsorted(runs, first, "right") - 1]
        end = runs[np.searchsorted(runs, first, "right")]
        assert kind_number == 0
        if head.crf is None:
            each = emissions.softmax(-1)
            best = each.argmax(-1)
            expected = np.prod([float(each[word, best[word]]) for word in range(first, last + 1)])
        else:
            paths, scores = all_chains(head.crf, emissions[start:end].detach())
            best = paths[scores.argmax()]
            place = slice(first - start, last - start + 1)
            expected = float(scores.softmax(0)[(paths[:, place] == best[place]).all(1)].sum())
        assert probability == pytest.approx(expected)


@pytest.mark.slow
@pytest.mark.parametrize("kind", some_by_default(["softmax", "crf"], ["crf"]))
def test_entities_beside_and_around_words_without_a_token_come_back_whole(kind, tmp_path):
    """A head that has learned its sentences, some of which have such words too."""
    empty = "\u200b"
    data = sentences()
    data += [spread(sentence, [0, 2, 4], empty) for sentence in data[::3]]
    encoder = write_encoder(tmp_path / "encoder", "bert")
    options = {"architecture": "seq_ner.v1", "options": {"tags": kind}}
    limits = {"entity_max_length": 8, "max_tokens": 48, "device": "cpu"}
    settings = TrainingSettings(**limits, **options, learning_rate=5e-3, batch_size=8, epochs=12)
    assert train(data, data, encoder, tmp_path / "bundle", settings, log=lambda line: None).dev.micro.f1 == 1
    model = load(tmp_path / "bundle")
    asked = [
        spread(sentence, places, empty)
        for sentence in data
        for start, end in [(e.start, e.end) for e in sentence.entities]
        for places in ([start], [end], [start, end], range(start + 1, end))
    ]
    found = model.tag_words([sentence.words for sentence in asked])
    wanted = [[(e.start, e.end, e.label) for e in sentence.entities] for sentence in asked]
    assert [[(e.word_start, e.word_end, e.label) for e in entities] for entities in found] == wanted


def sentences():
    """Names of one, two and three words in a frame that says nothing of where they begin and end."""
    names = {"paris": "location", "new york": "location", "barack obama": "person", "new müller zürich": "location"}
    made = []
    for first, second in product(names, repeat=2):
        words, entities = ["he"], []
        for name, after in ((first, ["was", "in"]), (second, ["for", "it"])):
            entities.append(Span(len(words), len(words) + len(name.split()), names[name]))
            words += [*name.split(), *after]
        made.append(Sentence(f"{first} {second}", 0, words, entities))
    return made


def spread(sentence, places, word):
    """The sentence with a word more before each of these places; an entity around it has it inside."""
    places = np.array(places, np.int64)
    entities = [
        replace(entity, start=entity.start + int((places <= entity.start).sum()),
                end=entity.end + int((places < entity.end).sum()))
        for entity in sentence.entities
    ]  # fmt: skip
    words = np.insert(np.array(sentence.words, dtype=object), places, word).tolist()
    return Sentence(f"{sentence.document_id} {places}", 0, words, entities)

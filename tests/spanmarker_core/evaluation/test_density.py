"""The band of densities: how often it alarms over text like the dev data, and what it alarms over."""

import json

import numpy as np
import pytest

from spanmarker_core.data import Sentence, Span
from spanmarker_core.evaluation.density import (
    ALARM_RATE,
    BLOCK_WORDS,
    FACTOR,
    SELECTED_SHARE,
    DevDensity,
    alarm_limit,
    band,
    dev_density,
    deviations,
)
from spanmarker_core.evaluation.dev_density import measure_density
from spanmarker_core.training.export import density_facts
from tests.support.jobs import TEXTS

TOLD = {"decoder": "flat.v1", "threshold": "None", "gate": "off"}
DEV = DevDensity(60_000, 3_000, 60, 1.5, False, **TOLD)

#: Words of a sentence and sentences of a document, in the simulated text; how much documents differ (gamma's shape).
SENTENCE, DOCUMENT, SHAPE = 25, 10, 6.0


def text(rng, n_words, per_word=0.05):
    """Sentences (words, entities) of text in documents that are about more or fewer entities."""
    n_sentences = -(-n_words // SENTENCE)
    n_documents = -(-n_sentences // DOCUMENT)
    rates = np.repeat(rng.gamma(SHAPE, per_word / SHAPE, n_documents), DOCUMENT)[:n_sentences]
    words = np.full(n_sentences, SENTENCE)
    words[-1] = n_words - SENTENCE * (n_sentences - 1)
    return words, rng.poisson(rates * words)


def source(rng, n_words, per_word=0.05):
    return int(text(rng, n_words, per_word)[1].sum())


def dev_of(rng, n_words=60_000):
    words, entities = text(rng, n_words)
    return dev_density(zip(words.tolist(), entities.tolist(), entities.tolist(), strict=True), **TOLD)


def alarms(dev, words, entities):
    words, entities = np.array(words), np.array(entities)
    lowest, highest = band(dev, words, len(words))
    return (entities / words < lowest) | (entities / words > highest)


def test_text_like_the_dev_data_seldom_alarms():
    """At most one run in a hundred, whatever the sizes of its sources, and with few dev data too."""
    rng = np.random.default_rng(5)
    sizes = [1, 5, 20, 60, 150, 300, 700, 1000, 2000, 10_000] * 4
    for n_words, runs in ((60_000, 250), (6_000, 250)):
        alarming = 0
        for _ in range(runs):
            dev = dev_of(rng, n_words)
            alarming += alarms(dev, sizes, [source(rng, size) for size in sizes]).any()
        assert alarming <= 2 * ALARM_RATE * runs, n_words


def test_a_thousand_small_sources_seldom_alarm():
    rng = np.random.default_rng(6)
    dev = dev_of(rng)
    sizes = rng.integers(1, 400, 1000)
    assert sum(alarms(dev, sizes, [source(rng, size) for size in sizes]).any() for _ in range(20)) <= 1


@pytest.mark.parametrize(
    ("factor", "n_words"), [(0.0, 500), (0.0, 100_000), (0.2, 3000), (0.4, 50_000), (2.5, 3000), (1.8, 50_000)]
)
def test_a_shift_alarms(factor, n_words):
    """Nothing found, as in another language; a fifth, as in a format that the model can't read; far too many."""
    rng = np.random.default_rng(7)
    dev = dev_of(rng)
    others = [20_000] * 9
    found = [source(rng, n_words, 0.05 * factor), *(source(rng, size) for size in others)]
    assert alarms(dev, [n_words, *others], found).tolist() == [True, *[False] * 9]


def test_a_source_of_few_words_without_an_entity_says_nothing():
    assert not alarms(DEV, [40], [0])[0]
    assert alarms(DEV, [1000], [0])[0]


def test_the_band_is_wider_for_fewer_words_and_for_more_sources():
    words = np.array([10, 100, 500, 1000, 2000, 10**6])
    for sources in (1, 1000):
        lowest, highest = band(DEV, words, sources)
        assert (np.diff(lowest) >= -1e-4).all()
        assert (np.diff(highest) <= 1e-4).all()
        assert (lowest < DEV.per_word).all()
        assert (highest > DEV.per_word).all()
    assert band(DEV, words, 1)[0][3] > lowest[3]
    assert (lowest[-1], highest[-1]) == (DEV.per_word / FACTOR, DEV.per_word * FACTOR)


def test_the_band_is_where_the_deviation_passes_the_limit():
    words = np.repeat([50, 1000, 30_000], 400)
    entities = np.tile(np.arange(400), 3) * np.repeat([1, 1, 10], 400)
    limit = alarm_limit(7)
    lowest, highest = band(DEV, words, 7)
    outside = (entities / words < lowest) | (entities / words > highest)
    far = (entities / words > FACTOR * DEV.per_word) | (entities / words < DEV.per_word / FACTOR)
    assert (outside == (far & (np.abs(deviations(DEV, words, entities)) > limit))).all()


def test_where_all_dev_sentences_have_entities_next_to_nothing_alarms_only():
    """Half as many are nothing to worry about then; a hundredth is."""
    chosen = DevDensity(60_000, 3_000, 60, 1.5, True, **TOLD)
    assert alarms(DEV, [10_000] * 2, [240, 5]).tolist() == [True, True]
    assert alarms(chosen, [10_000] * 2, [240, 5]).tolist() == [False, True]
    assert band(chosen, np.array([10_000]), 1)[0] == SELECTED_SHARE * band(DEV, np.array([10_000]), 1)[0]


def test_blocks_by_hand():
    """Blocks of 1,200, 1,000 and 1,100 words, the last one with what was too short for its own."""
    found = dev_density([(600, 10, 1), (600, 20, 1), (1000, 40, 1), (1000, 30, 1), (100, 10, 1)], **TOLD)
    expected = np.array([1200, 1000, 1100]) * (110 / 3300)
    assert expected.tolist() == [40, pytest.approx(33.3333, abs=1e-3), pytest.approx(36.6667, abs=1e-3)]
    dispersion = ((np.array([30, 40, 40]) - expected) ** 2 / expected).sum() / 2
    assert found == DevDensity(3300, 110, 3, round(dispersion, 6), True, **TOLD)


@pytest.mark.parametrize("sentences", [[], [(1500, 10, 1)], [(1000, 9, 1), (900, 9, 1)], [(1000, 0, 1), (1000, 0, 1)]])
def test_too_little_data_have_no_band(sentences):
    assert dev_density(sentences, **TOLD) is None


def test_what_a_bundle_keeps_comes_back():
    values = json.loads(json.dumps(DEV.to_json()))
    assert DevDensity.from_json(values) == DEV
    assert values["block_words"] == BLOCK_WORDS


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("words", value) for value in (None, 10, True)),
        *(("entities", value) for value in (0, 1e9)),
        *(("dispersion", value) for value in ("1", float("nan"), -1)),
        *(("blocks", 1), ("block_words", 500), ("gate", 3), ("selected", 1)),
    ],
)
def test_what_is_no_density_is_none(name, value):
    assert DevDensity.from_json({**DEV.to_json(), name: value}) is None
    assert DevDensity.from_json(None) is None
    assert DevDensity.from_json([]) is None


def test_dev_data_are_tagged_as_running_text(tiny):
    """Words are the splitter's (three for "F-15C") and entities those of `tag_text`, context and all."""
    words = [f"Barack Obama flew to New York in an F-15C . {text}".split() for text in TEXTS if text.strip()]
    sentences = [
        Sentence(f"d{number // 3}", number % 3, words[number % len(words)], [Span(0, 2, "person")] * (number != 7))
        for number in range(90)
    ]
    found = measure_density(tiny, sentences)
    texts = [" ".join(sentence.words) for sentence in sentences]
    assert found.words == sum(len(encoded.word_char_start) for encoded in tiny.packer.encode_texts(texts))
    assert found.words > sum(len(sentence.words) for sentence in sentences)
    assert found.entities == sum(len(entities) for entities in tiny.tag_text(texts, split=False)) > 0
    assert (found.decoder, found.threshold, found.gate, found.selected) == ("flat.v1", "None", "off", False)
    assert density_facts(tiny, sentences) == {"density": found.to_json()}
    assert density_facts(tiny, sentences[:3]) == {}

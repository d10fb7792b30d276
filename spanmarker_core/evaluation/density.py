"""How many entities a model finds in so many words, and how far text like its own dev data strays from that.

A corpus that a model was not made for shows in the density of its entities: another language, upper-case text, menus
and tables give far fewer of them, or far more. So a bundle keeps what its model found in its dev data (`DevDensity`,
the fact `density` of card.json), and `band` tells the densities that a source of so many words may have.

Dev data are cut into blocks of consecutive sentences of 1,000 words or more. Let m be the entities a word over all
blocks, and D the dispersion: the mean over B - 1 of (E - mW)^2 / (mW), for blocks of W words with E entities each. It
is 1 for entities that are strewn at random (Poisson) and more where they come in clusters, as in documents about
people or places. The square root of a density then has a variance of about D / 4W, whatever the density (Bartlett
1936, "The square root transformation in analysis of variance"; 3/8 is added to counts as in Anscombe 1948), so that

    z = 2 (sqrt((E + 3/8) / W) - sqrt(m)) / sqrt(D (1 / W + 1 / W_dev))

is about normal. D is not below 1, and its upper 95 % bound is taken (chi-square of B - 1 degrees of freedom, by Wilson
and Hilferty's cube root), so that few blocks give a wide band. A source alarms if chance does not explain its density
and it is a matter of more than shades:

- |z| is above the normal quantile of `ALARM_RATE` / number of sources, two-sided (Bonferroni). So of a hundred runs
  over text like the dev data no more than about one has an alarm, however many and however small its sources are;
- and the density is above m by half or more, or below two thirds of m. Corpora differ among each other, and in a large
  source chance explains no difference.

Some data hold chosen sentences only, each with an entity (`selected`). Running text has fewer entities than they do,
nobody knows how many. Then the lowest density is a tenth of what it would be, which still tells text in which next to
nothing is found.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

#: Words of a block, at least.
BLOCK_WORDS = 1000
#: Share of runs over text like the dev data that have an alarm at all.
ALARM_RATE = 0.01
#: Densities within this factor of that of the dev data never alarm.
FACTOR = 1.5
#: Share of sentences with entities that running text is taken to have at least, where all dev sentences have some.
SELECTED_SHARE = 0.1
_SURE = 0.95  # that the dispersion isn't larger
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class DevDensity:
    """What a model found in its dev data.

    Attributes:
        words: of the dev data, as the model's own splitter counts them in running text.
        entities: that the model found there.
        blocks: of consecutive sentences, `BLOCK_WORDS` words or more each; 2 at least.
        dispersion: of their entities, see the module.
        selected: whether no sentence of the dev data is without an annotated entity.
        decoder, threshold, gate: what they were found with, as in a job's identity.
    """

    words: int
    entities: int
    blocks: int
    dispersion: float
    selected: bool
    decoder: str
    threshold: str
    gate: str

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` reads."""
        return {**asdict(self), "block_words": BLOCK_WORDS}

    @classmethod
    def from_json(cls, values: object) -> "DevDensity | None":
        """Return what `to_json` gave; None for anything else, since a card's facts are anybody's."""
        if not isinstance(values, Mapping) or values.get("block_words") != BLOCK_WORDS:
            return None
        whole = all(type(values.get(name)) is int for name in ("words", "entities", "blocks"))
        texts = all(isinstance(values.get(name), str) for name in ("decoder", "threshold", "gate"))
        dispersion = values.get("dispersion")
        known = isinstance(dispersion, int | float) and 0 <= dispersion < 1e9 and type(values.get("selected")) is bool
        if not (whole and texts and known):
            return None
        found = cls(**{name: values[name] for name in cls.__slots__})
        return found if found.words >= 2 * BLOCK_WORDS and 0 < found.entities < 1e15 and found.blocks >= 2 else None

    @property
    def per_word(self) -> float:
        """Entities a word."""
        return self.entities / self.words


def dev_density(
    sentences: Iterable[tuple[int, int, int]], *, decoder: str, threshold: str, gate: str
) -> DevDensity | None:
    """Return the density of sentences; None where there is no band.

    That is so for fewer than two blocks of `BLOCK_WORDS` words, and where nothing was found. A last block that is too
    short counts with the one before it.

    Args:
        sentences: (words, entities found, entities annotated) of each, in their order.
        decoder, threshold, gate: what the entities were found with.

    >>> data = [(500, 40, 41), (500, 60, 58), (1000, 120, 110), (10, 0, 0)]
    >>> found = dev_density(data, decoder="", threshold="", gate="")
    >>> found.words, found.entities, found.blocks, round(found.dispersion, 3), found.selected
    (2010, 220, 2, 1.625, False)
    """
    blocks: list[list[int]] = [[0, 0]]
    selected = True
    for words, entities, annotated in sentences:
        selected = selected and annotated > 0
        if blocks[-1][0] >= BLOCK_WORDS:
            blocks.append([0, 0])
        blocks[-1][0] += words
        blocks[-1][1] += entities
    if len(blocks) > 1 and blocks[-1][0] < BLOCK_WORDS:
        words, entities = blocks.pop()
        blocks[-1][0] += words
        blocks[-1][1] += entities
    counts = np.array(blocks, np.float64)
    n_words, n_entities = (int(total) for total in counts.sum(axis=0))
    if len(blocks) < 2 or not n_entities:
        return None
    expected = counts[:, 0] * (n_entities / n_words)
    dispersion = float(((counts[:, 1] - expected) ** 2 / expected).sum() / (len(blocks) - 1))
    return DevDensity(n_words, n_entities, len(blocks), round(dispersion, 6), selected, decoder, threshold, gate)


def deviations(dev: DevDensity, words: np.ndarray, entities: np.ndarray) -> np.ndarray:
    """Return z of each source, float64 [n]; negative where there are fewer entities than in dev. See the module.

    Args:
        dev: of the model.
        words, entities: int64 [n], of each source; words are 1 or more.
    """
    return (np.sqrt((entities + 0.375) / words) - math.sqrt(dev.per_word)) / _spread(dev, words)


def alarm_limit(sources: int) -> float:
    """Return the |z| past which one of so many sources alarms.

    >>> [round(alarm_limit(sources), 2) for sources in (1, 100, 1_000_000)]
    [2.58, 3.89, 5.73]
    """
    return -_NORMAL.inv_cdf(ALARM_RATE / 2 / max(sources, 1))


def band(dev: DevDensity, words: np.ndarray, sources: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and highest densities without an alarm, entities a word, float64 [n] each, for n sources.

    A source of few words has a lowest of 0: that it has no entity says nothing.

    Args:
        dev: of the model.
        words: int64 [n], of each source, 1 or more.
        sources: that are looked at in all.
    """
    reach = alarm_limit(sources) * _spread(dev, words)
    middle, shift = math.sqrt(dev.per_word), 0.375 / words
    lowest = np.maximum(np.maximum(middle - reach, 0.0) ** 2 - shift, 0.0)
    lowest = np.minimum(lowest, dev.per_word / FACTOR) * (SELECTED_SHARE if dev.selected else 1.0)
    return lowest, np.maximum((middle + reach) ** 2 - shift, dev.per_word * FACTOR)


def _spread(dev: DevDensity, words: np.ndarray) -> np.ndarray:
    """Return the standard deviation of the square root of each source's density."""
    variance = _upper(dev.dispersion, dev.blocks - 1) / 4
    return np.sqrt(variance * (1 / words + 1 / dev.words))


def _upper(dispersion: float, degrees: int) -> float:
    """Return the upper bound of a dispersion: times degrees by the 5 % quantile of chi-square, 1 at least.

    >>> round(_upper(1.0, 10), 2), round(_upper(1.0, 65), 2)  # 10 / 3.94, 65 / 47.4
    (2.54, 1.37)
    """
    part = 2 / (9 * degrees)
    quantile = degrees * max(1 - part + _NORMAL.inv_cdf(1 - _SURE) * math.sqrt(part), 0.01) ** 3
    return max(1.0, dispersion * degrees / quantile)

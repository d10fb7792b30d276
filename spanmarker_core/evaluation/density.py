"""Entity density of a model on its development data, and the range of densities expected on similar text.

Text that a model was not trained for has an unusual density of entities: other languages, upper-case text, menus and
tables give far fewer or far more of them. A bundle therefore stores how many entities its model found in its dev data
(`DevDensity`, the fact `density` of card.json), and `band` computes the range of densities that is plausible for a
source of a given size.

Dev data are cut into blocks of consecutive sentences of 1,000 words or more. Let m be the number of entities per word
over all blocks, and D the dispersion: the sum over blocks of (E - mW)^2 / (mW), divided by B - 1, for B blocks of W
words with E entities each. D is 1 for entities that are distributed at random (Poisson), and higher if they occur in
clusters, as in documents about people or places. The square root of a density then has a variance of approximately
D / 4W, whatever the density (Bartlett 1936, "The square root transformation in analysis of variance"; 3/8 is added to
counts as in Anscombe 1948), so that

    z = 2 (sqrt((E + 3/8) / W) - sqrt(m)) / sqrt(D (1 / W + 1 / W_dev))

is approximately normal. D is at least 1, and its upper 95 % bound is used (chi-square with B - 1 degrees of freedom,
by Wilson and Hilferty's cube root), so that few blocks give a wide band. A source raises an alarm if both hold:

- |z| exceeds the two-sided normal quantile of `ALARM_RATE` / number of sources (Bonferroni). So at most about one in
  a hundred runs over text like the dev data raises any alarm, whatever the number and size of its sources.
- The density is at least 1.5 m, or below two thirds of m. Corpora differ from each other, and in a large source even a
  small difference is statistically significant.

Some data contain only selected sentences, each with an entity (`selected`). Running text has fewer entities, by an
unknown factor. For such data the lower bound is divided by ten, which still detects text with almost no entities.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

#: Minimum number of words of a block.
BLOCK_WORDS = 1000
#: Share of runs over text like the dev data that may raise an alarm.
ALARM_RATE = 0.01
#: Densities within this factor of the dev data's never raise an alarm.
FACTOR = 1.5
#: Minimum share of sentences with entities assumed for running text, if all dev sentences have some.
SELECTED_SHARE = 0.1
_SURE = 0.95  # confidence of the upper bound of the dispersion
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class DevDensity:
    """Density of the entities that a model found in its dev data.

    Attributes:
        words: number of words, counted as the model's own splitter counts them in running text.
        entities: number of entities that the model found.
        blocks: number of blocks of consecutive sentences with at least `BLOCK_WORDS` words each; at least 2.
        dispersion: dispersion of the entities over the blocks, see the module.
        selected: whether every sentence of the dev data has an annotated entity.
        decoder: name of the decoder that the entities were found with.
        threshold: score threshold that they were found with, as text.
        gate: gate setting that they were found with, as text.
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
        """Return the JSON values that `from_json` reads."""
        return {**asdict(self), "block_words": BLOCK_WORDS}

    @classmethod
    def from_json(cls, values: object) -> "DevDensity | None":
        """Read the result of `to_json`; return None for anything else, since a card can contain arbitrary values.

        Args:
            values: the fact `density` of a card.
        """
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
        """Entities per word."""
        return self.entities / self.words


def dev_density(
    sentences: Iterable[tuple[int, int, int]], *, decoder: str, threshold: str, gate: str
) -> DevDensity | None:
    """Compute the density of sentences.

    A last block that is too short is merged with the one before it.

    Args:
        sentences: (words, entities found, entities annotated) of each sentence, in order.
        decoder: name of the decoder that the entities were found with.
        threshold: score threshold that they were found with, as text.
        gate: gate setting that they were found with, as text.

    Returns:
        The density; None if there are fewer than two blocks of `BLOCK_WORDS` words, or no entities.

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
    """Return z of each source (see the module), float64 [n]; negative for fewer entities than in the dev data.

    Args:
        dev: density of the model's dev data.
        words: int64 [n], words of each source, 1 or more.
        entities: int64 [n], entities of each source.
    """
    return (np.sqrt((entities + 0.375) / words) - math.sqrt(dev.per_word)) / _spread(dev, words)


def alarm_limit(sources: int) -> float:
    """Return the limit of |z| above which a source raises an alarm.

    Args:
        sources: number of sources that are checked.

    >>> [round(alarm_limit(sources), 2) for sources in (1, 100, 1_000_000)]
    [2.58, 3.89, 5.73]
    """
    return -_NORMAL.inv_cdf(ALARM_RATE / 2 / max(sources, 1))


def band(dev: DevDensity, words: np.ndarray, sources: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and highest densities that raise no alarm, in entities per word, float64 [n] each.

    For sources of few words the lower bound is 0: such a source may well have no entities.

    Args:
        dev: density of the model's dev data.
        words: int64 [n], words of each source, 1 or more.
        sources: number of sources that are checked.
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
    """Return the upper 95 % bound of a dispersion: times degrees by the 5 % quantile of chi-square, at least 1.

    Uses Wilson and Hilferty's approximation (Abramowitz and Stegun, 26.4.17), at most 2 % too wide from 5 degrees on:
    scipy would add 35 MB to every installation.

    >>> round(_upper(1.0, 10), 2), round(_upper(1.0, 65), 2)  # 10 / 3.94, 65 / 47.4
    (2.54, 1.37)
    """
    part = 2 / (9 * degrees)
    quantile = degrees * max(1 - part + _NORMAL.inv_cdf(1 - _SURE) * math.sqrt(part), 0.01) ** 3
    return max(1.0, dispersion * degrees / quantile)

"""Entities per 1,000 words by source, compared with the density of the model's own predictions on its dev data.

A source is the file that a shard was read from, or for text files their folder. All counts come from manifest entries,
so they are exact and no rows are read. A source takes 40 bytes of memory; the names of the sources shown are looked up
at the end.
"""

from array import array
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from pipelines.output.digest_set import DigestSet, digests_of
from schemas.manifest import Entry
from spanmarker_core.errors import CoreError
from spanmarker_core.evaluation.density import ALARM_RATE, BLOCK_WORDS, DevDensity, band, deviations

#: Maximum number of sources in a report; further ones are only counted.
MAX_SOURCES = 40
#: Number of buffered entries after which the counts of each source are summed.
_HELD = 1 << 16
_COUNTS = ("documents", "rejected", "words", "entities")


class SourceCounts:
    """Documents, rejects, words and entities by source."""

    def __init__(self) -> None:
        self._keys = np.empty(0, np.uint64)  # sorted, unique
        self._sums = np.empty((0, len(_COUNTS)), np.int64)
        self._new_keys, self._new_counts = array("Q"), array("q")

    def add(self, entry: Entry) -> None:
        """Add a shard.

        Args:
            entry: manifest entry of the shard.
        """
        self._new_keys.frombytes(digests_of([entry.source]).tobytes())
        self._new_counts.extend(entry.counts.get(name, 0) for name in _COUNTS)
        if len(self._new_keys) >= _HELD:
            self._add_up()

    def _add_up(self) -> None:
        keys = np.concatenate([self._keys, np.asarray(self._new_keys, np.uint64)])
        counts = np.concatenate([self._sums, np.asarray(self._new_counts, np.int64).reshape(-1, len(_COUNTS))])
        self._keys, places = np.unique(keys, return_inverse=True)
        self._sums = np.zeros((len(self._keys), len(_COUNTS)), np.int64)
        np.add.at(self._sums, places, counts)
        self._new_keys, self._new_counts = array("Q"), array("q")

    def described(
        self, dev: DevDensity | str, sources: Callable[[], Iterable[str]], shown: int = MAX_SOURCES
    ) -> dict[str, Any]:
        """Return the source statistics of the report as plain values. Densities are entities per 1,000 words.

        Sources that deviate most from the expected density come first: the middle of the expected band, or without a
        band the density of all sources together. Sources without words are counted but not judged.

        Args:
            dev: density of the model's predictions on its dev data, or the reason why none is available.
            sources: returns the names of the sources, possibly repeated; called only if there are sources.
            shown: maximum number of sources listed.
        """
        self._add_up()
        judged = self._sums[:, 2] > 0
        keys, (documents, rejected, words, entities) = self._keys[judged], self._sums[judged].T
        total_words, total_entities = int(words.sum()), int(entities.sum())
        expected = dev
        if isinstance(expected, str):  # used only for sorting; a band without dev data is not reported
            expected = DevDensity(max(total_words, 1), max(total_entities, 1), 2, 0.0, False, "", "", "")
        z = deviations(expected, words, entities)
        lowest, highest = band(expected, words, len(keys))
        if isinstance(dev, str):
            lowest, highest = np.zeros(len(keys)), np.full(len(keys), np.inf)
        few, many = entities / words < lowest, entities / words > highest
        # The key breaks ties, so the result does not depend on the division into shards or their order.
        chosen = np.lexsort([keys, -np.abs(z), ~(few | many)])[:shown]
        names = _names(keys[chosen], sources)
        rows = [
            {
                "source": names.get(int(keys[place]), ""),
                "documents": int(documents[place]),
                "rejected": int(rejected[place]),
                "words": int(words[place]),
                "entities": int(entities[place]),
                "per_1000_words": _rounded(entities[place] / words[place]),
                "lowest": None if isinstance(dev, str) else _rounded(lowest[place]),
                "highest": None if isinstance(dev, str) else _rounded(highest[place]),
                "alarm": "too few entities" if few[place] else "too many entities" if many[place] else None,
            }
            for place in chosen
        ]
        return {
            "sources": len(self._keys),
            "without_words": int((~judged).sum()),
            "per_1000_words": _rounded(total_entities / total_words) if total_words else None,
            "dev": None if isinstance(dev, str) else _dev_values(dev),
            "no_band": dev if isinstance(dev, str) else None,
            "too_few": int(few.sum()),
            "too_many": int(many.sum()),
            "shown": rows,
        }


def dev_density_of(bundle: str, identity: Mapping[str, str]) -> DevDensity | str:
    """Return the density of the model's predictions on its dev data, or the reason why it cannot be compared.

    Args:
        bundle: folder of the model.
        identity: the job identity.
    """
    from spanmarker_core.card import read_card_facts  # imported late, so that runs with work to do start sooner

    try:
        dev = DevDensity.from_json(read_card_facts(bundle).get("density"))
    except CoreError as error:
        return f"cannot read the card of the model: {error.text}"
    if dev is None:
        return (
            "the model's bundle does not say how dense entities were in its dev data; "
            "`spanmarker card BUNDLE --dev DATA` measures it"
        )
    if "labels" in identity:
        return (
            f"the density of the dev data was measured over all labels, but this run writes only {identity['labels']}"
        )
    for name in ("decoder", "threshold", "gate"):
        there, here = getattr(dev, name), identity.get(name)
        if there != here:
            return f"the density of the dev data was measured with {name} {there}, but this run uses {here}"
    return dev


def _dev_values(dev: DevDensity) -> dict[str, Any]:
    return {
        "words": dev.words,
        "entities": dev.entities,
        "per_1000_words": _rounded(dev.per_word),
        "blocks": dev.blocks,
        "block_words": BLOCK_WORDS,
        "dispersion": dev.dispersion,
        "selected": dev.selected,
        "false_alarm_rate": ALARM_RATE,
    }


def _names(keys: np.ndarray, sources: Callable[[], Iterable[str]]) -> dict[int, str]:
    chosen = DigestSet(keys)
    found: dict[int, str] = {}
    if len(chosen):
        for name in chosen.among(sources()):
            found.setdefault(int(digests_of([name])[0]), name)
            if len(found) == len(chosen):
                break
    return found


def _rounded(per_word: float) -> float:
    return round(1000 * float(per_word), 2)

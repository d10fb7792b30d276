"""Sets of names at eight bytes per name: a million shards take eight megabytes.

A name is represented by 64 bits of its digest. A shard's name contains a digest of the same length, so this adds no new
kind of collision: among a million names, the probability that two collide is 3 in 100 million.
"""

import hashlib
import itertools
from array import array
from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np

Item = TypeVar("Item")

#: Items per batch where there may be millions.
CHUNK = 4096


def chunks(items: Iterable[Item], size: int = CHUNK) -> Iterator[list[Item]]:
    """Yield items in lists of equal size; the last may be shorter.

    Args:
        items: the items.
        size: items per list.

    >>> list(chunks("abc", 2))
    [['a', 'b'], ['c']]
    """
    iterator = iter(items)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk


def digests_of(names: Iterable[str | bytes]) -> np.ndarray:
    """Return the digests of names, uint64, in order.

    Args:
        names: the names.
    """
    digests = b"".join(
        hashlib.blake2b(
            name if isinstance(name, bytes) else name.encode("utf-8", "surrogateescape"), digest_size=8
        ).digest()
        for name in names
    )
    return np.frombuffer(digests, np.dtype("<u8"))


class DigestSet:
    """A set of names that stores only their digests: it can test membership, but not list the names.

    Args:
        keys: digests of the names, in any order; duplicates are allowed.

    Attributes:
        keys: digests of the names, uint64, sorted and unique.

    >>> names = DigestSet.of(["a", "b"])
    >>> "a" in names, "c" in names, len(names - DigestSet.of(["a"]))
    (True, False, 1)
    """

    def __init__(self, keys: "np.ndarray | array[int]") -> None:
        self.keys = np.unique(np.asarray(keys, np.uint64))

    @classmethod
    def of(cls, names: Iterable[str]) -> "DigestSet":
        """Return the set of some names; memory holds one batch of them at a time.

        Args:
            names: the names.
        """
        keys = array("Q")
        for chunk in chunks(names):
            keys.frombytes(digests_of(chunk).tobytes())
        return cls(keys)

    @property
    def digest(self) -> str:
        """A digest of the set; sets of the same names have the same digest."""
        return hashlib.blake2b(self.keys.tobytes(), digest_size=8).hexdigest()

    def mask(self, keys: np.ndarray) -> np.ndarray:
        """Return for each digest whether its name is in the set.

        Args:
            keys: digests of names, uint64.
        """
        if not len(self.keys):
            return np.zeros(len(keys), bool)
        indices = np.searchsorted(self.keys, keys)
        return self.keys[np.minimum(indices, len(self.keys) - 1)] == keys

    def among(self, names: Iterable[str]) -> Iterator[str]:
        """Yield the names that are in the set; reads one batch of names ahead.

        Args:
            names: the names to test.
        """
        for chunk in chunks(names):
            yield from itertools.compress(chunk, self.mask(digests_of(chunk)))

    def missing(self, names: Iterable[str]) -> Iterator[str]:
        """Yield the names that are not in the set; reads one batch of names ahead.

        Args:
            names: the names to test.
        """
        for chunk in chunks(names):
            yield from itertools.compress(chunk, ~self.mask(digests_of(chunk)))

    def __contains__(self, name: str) -> bool:
        return bool(self.mask(digests_of([name]))[0])

    def __len__(self) -> int:
        return len(self.keys)

    def __sub__(self, other: "DigestSet") -> "DigestSet":
        return DigestSet(self.keys[~other.mask(self.keys)])

    def __and__(self, other: "DigestSet") -> "DigestSet":
        return DigestSet(self.keys[other.mask(self.keys)])

    def __or__(self, other: "DigestSet") -> "DigestSet":
        return DigestSet(np.concatenate([self.keys, other.keys]))


class Sizes:
    """A size for each of many names, at sixteen bytes per name.

    Args:
        keys: digests of the names, in any order.
        sizes: the size of each name.

    Attributes:
        names: the set of the names.
        sizes: int64, the size of each name, in the order of `names.keys`.
    """

    def __init__(self, keys: "np.ndarray | array[int]", sizes: "np.ndarray | array[int]") -> None:
        keys, order = np.unique(np.asarray(keys, np.uint64), return_index=True)
        self.names = DigestSet(keys)
        self.sizes = np.asarray(sizes, np.int64)[order]

    @classmethod
    def of(cls, sizes: Iterable[tuple[str, int]]) -> "Sizes":
        """Return the sizes of some names; memory holds one batch of them at a time.

        Args:
            sizes: pairs of name and size.
        """
        keys, numbers = array("Q"), array("q")
        for chunk in chunks(sizes):
            keys.frombytes(digests_of(name for name, _ in chunk).tobytes())
            numbers.extend(size for _, size in chunk)
        return cls(keys, numbers)

    def get(self, name: str) -> int | None:
        """Return the size of a name; None if the name is unknown.

        Args:
            name: the name.
        """
        key = digests_of([name])
        index = min(int(np.searchsorted(self.names.keys, key)[0]), len(self.sizes) - 1)
        return int(self.sizes[index]) if len(self.sizes) and self.names.keys[index] == key[0] else None

    def equal(self, keys: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Return for each digest whether its name is known with this size.

        Args:
            keys: digests of names, uint64.
            sizes: the expected size of each.
        """
        if not len(self.names):
            return np.zeros(len(keys), bool)
        indices = np.minimum(np.searchsorted(self.names.keys, keys), len(self.sizes) - 1)
        return (self.names.keys[indices] == keys) & (self.sizes[indices] == sizes)

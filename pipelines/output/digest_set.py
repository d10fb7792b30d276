"""Sets of names at eight bytes a name. A million shards are eight megabytes.

A name stands in a set as 64 bits of its digest. A shard's name holds no more of its own, so this adds no new kind of
accident: of a million names two are taken for each other with a chance of 3 in 100 million.
"""

import hashlib
import itertools
from array import array
from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np

Item = TypeVar("Item")

#: Items that are worked on at once where there may be millions.
PAGE = 4096


def pages(items: Iterable[Item], size: int = PAGE) -> Iterator[list[Item]]:
    """Yield the items in lists of `size`, the last perhaps shorter.

    >>> list(pages("abc", 2))
    [['a', 'b'], ['c']]
    """
    iterator = iter(items)
    while page := list(itertools.islice(iterator, size)):
        yield page


def digests_of(names: Iterable[str | bytes]) -> np.ndarray:
    """Return the names' keys, uint64, in order."""
    digests = b"".join(
        hashlib.blake2b(
            name if isinstance(name, bytes) else name.encode("utf-8", "surrogateescape"), digest_size=8
        ).digest()
        for name in names
    )
    return np.frombuffer(digests, np.dtype("<u8"))


class DigestSet:
    """A set of names that can tell what is in it, and no longer what it is called.

    >>> names = DigestSet.of(["a", "b"])
    >>> "a" in names, "c" in names, len(names - DigestSet.of(["a"]))
    (True, False, 1)
    """

    def __init__(self, keys: "np.ndarray | array[int]") -> None:
        #: Sorted, unique.
        self.keys = np.unique(np.asarray(keys, np.uint64))

    @classmethod
    def of(cls, names: Iterable[str]) -> "DigestSet":
        """Return the set of these names; holds a page of them at a time."""
        keys = array("Q")
        for page in pages(names):
            keys.frombytes(digests_of(page).tobytes())
        return cls(keys)

    @property
    def digest(self) -> str:
        """A digest of the set: two with the same names have the same."""
        return hashlib.blake2b(self.keys.tobytes(), digest_size=8).hexdigest()

    def mask(self, keys: np.ndarray) -> np.ndarray:
        """Tell of each key whether its name is in the set."""
        if not len(self.keys):
            return np.zeros(len(keys), bool)
        places = np.searchsorted(self.keys, keys)
        return self.keys[np.minimum(places, len(self.keys) - 1)] == keys

    def among(self, names: Iterable[str]) -> Iterator[str]:
        """Yield those of the names that are in the set; reads a page of them ahead."""
        for page in pages(names):
            yield from itertools.compress(page, self.mask(digests_of(page)))

    def missing(self, names: Iterable[str]) -> Iterator[str]:
        """Yield those of the names that are not in the set; reads a page of them ahead."""
        for page in pages(names):
            yield from itertools.compress(page, ~self.mask(digests_of(page)))

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
    """A number for each name, at sixteen bytes a name."""

    def __init__(self, keys: "np.ndarray | array[int]", sizes: "np.ndarray | array[int]") -> None:
        keys, order = np.unique(np.asarray(keys, np.uint64), return_index=True)
        self.names = DigestSet(keys)
        self.sizes = np.asarray(sizes, np.int64)[order]

    @classmethod
    def of(cls, sizes: Iterable[tuple[str, int]]) -> "Sizes":
        """Return what these pairs of name and number say; holds a page of them at a time."""
        keys, numbers = array("Q"), array("q")
        for page in pages(sizes):
            keys.frombytes(digests_of(name for name, _ in page).tobytes())
            numbers.extend(size for _, size in page)
        return cls(keys, numbers)

    def equal(self, keys: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Tell of each key whether its name is known with this number."""
        if not len(self.names):
            return np.zeros(len(keys), bool)
        places = np.minimum(np.searchsorted(self.names.keys, keys), len(self.sizes) - 1)
        return (self.names.keys[places] == keys) & (self.sizes[places] == sizes)

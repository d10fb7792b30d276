"""Parametrisations of which a part runs by default, and all of it with --slow."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest


def some_by_default(cases: Sequence[Any], chosen: Iterable[Any]) -> list[Any]:
    """All cases, those that are not chosen marked slow. Cases of several arguments are tuples."""
    chosen = list(chosen)
    assert all(case in cases for case in chosen)
    assert chosen
    return [case if case in chosen else _slow(case) for case in cases]


def first_of_each(cases: Sequence[Any], kind: Callable[[Any], object]) -> list[Any]:
    """The first case of each kind.

    >>> first_of_each(["ab", "ac", "b"], kind=lambda case: case[0])
    ['ab', 'b']
    """
    found: dict[object, Any] = {}
    for case in cases:
        found.setdefault(kind(case), case)
    return list(found.values())


def pairs(first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
    """All pairs; by default only those with the first of `first`, or with the first of `second`.

    >>> [pair for pair in pairs("ab", "xyz") if isinstance(pair, tuple)]
    [('a', 'x'), ('a', 'y'), ('a', 'z'), ('b', 'x')]
    """
    every = [(one, other) for one in first for other in second]
    return some_by_default(every, [pair for pair in every if pair[0] == first[0] or pair[1] == second[0]])


def _slow(case: Any) -> Any:
    values = case if type(case) is tuple else (case,)
    return pytest.param(*values, marks=pytest.mark.slow)

"""The worked examples in docstrings are true."""

import doctest
import importlib
import pkgutil

import pytest

import pipelines
import schemas
import spanmarker_core

MODULES = [
    module.name
    for package in (schemas, spanmarker_core, pipelines)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    assert doctest.testmod(importlib.import_module(name), optionflags=flags).failed == 0


def test_there_are_examples():
    found = [doctest.DocTestFinder().find(importlib.import_module(name)) for name in MODULES]
    assert sum(len(test.examples) for tests in found for test in tests) > 25

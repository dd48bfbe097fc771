"""The examples in the documentation do what they say (modules by their canonical names)."""

from __future__ import annotations

import doctest
import importlib

import pytest

from labkit import registry
from labkit.schedule import PROBLEMS

MODULES = [
    *(
        f"labkit.algorithms.{problem}.{name}"
        for problem in registry.problems()
        if problem not in PROBLEMS
        for name in registry.names(problem)
    ),
    "labkit.datasets.graphs",
    "labkit.datasets.matrices",
    "labkit.datasets.inputs",
    "labkit.local.grid",
    "labkit.local.grid",
    "labkit.local.codes",
    "labkit.algorithms.sort_checker",
    "tests.support.sort_oracle",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    outcome = doctest.testmod(importlib.import_module(name))
    assert outcome.attempted > 0
    assert outcome.failed == 0

"""The examples in the documentation do what they say (modules by their canonical names)."""

from __future__ import annotations

import doctest
import importlib

import pytest

from labkit import registry

MODULES = [
    "labkit.algorithms.sorting.exact_splitting_sort",
    "labkit.algorithms.sorting.histogram_sort",
    "labkit.algorithms.sorting.sample_sort",
    "labkit.datasets.inputs",
    "labkit.local.buckets",
    "labkit.local.codes",
    "labkit.local.digits",
    "labkit.testing.checker",
    "labkit.testing.sort_oracle",
    *(f"labkit.algorithms.sorting.{name}" for name in registry.names("sorting")),
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    outcome = doctest.testmod(importlib.import_module(name))
    assert outcome.attempted > 0
    assert outcome.failed == 0

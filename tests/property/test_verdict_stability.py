"""Verdicts are continuous in the data; the expectation, units, order and copies change nothing."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from labkit.scaling import judge
from tests.support.benchmarks import load_benchmark

CASES = json.loads(Path(__file__).with_name("judged_series.json").read_text())


@pytest.fixture(scope="module")
def stability() -> ModuleType:
    return load_benchmark("verdicts/stability.py")


@pytest.mark.parametrize("seed", [11, pytest.param(12, marks=pytest.mark.slow)])
def test_small_changes_move_a_match_to_a_neighbor_at_most(stability: ModuleType, seed: int) -> None:
    rng = np.random.default_rng(seed)
    changes = 0
    for x, y in stability.series(70 if seed == 11 else 1400, seed):
        expectation = stability.EXPECTATIONS[rng.integers(len(stability.EXPECTATIONS))]
        one, other = judge(x, y, expectation), judge(x, stability.moved(rng, y), expectation)
        assert not stability.jumps(one.match, other.match), (x, y, expectation)
        changes += one.match != other.match
    assert changes <= 5


def test_the_description_does_not_depend_on_the_expectation(stability: ModuleType) -> None:
    for x, y in stability.series(14, seed=13):
        assert len({stability.described(judge(x, y, e)) for e in stability.EXPECTATIONS}) == 1


def test_units_order_and_copies_change_nothing(stability: ModuleType) -> None:
    rng = np.random.default_rng(14)
    for x, y in stability.series(42, seed=14):
        expectation = stability.EXPECTATIONS[rng.integers(len(stability.EXPECTATIONS))]
        match = judge(x, y, expectation).match
        for what, xs, ys in stability.variants(rng, x, y):
            assert judge(xs, ys, expectation).match == match, (what, x, y, expectation)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["what"])
def test_measured_series_get_the_growth_that_a_person_reads_from_them(case: dict) -> None:
    for expectation in ("1", "log p", "p", "p log p", "p^2"):
        for factor in (1.0, 1 + 1e-10):  # a last digit changes nothing
            y = np.array(case["y"])
            y[2] *= factor
            verdict = judge(case["p"], y, expectation)
            assert verdict.growth == case["growth"]
            assert verdict.model is not None
            assert not verdict.model.is_nearest
            if "dominates" in case:
                assert str(verdict.model.dominant) == case["dominates"]
            if "takes_over_at" in case:
                assert verdict.to_dict()["takes_over_at"] == pytest.approx(case["takes_over_at"], rel=0.05)
            if "since" in case:
                assert verdict.model.since == case["since"]

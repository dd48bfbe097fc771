"""Recovery of synthetic truths: floors well below what `benchmarks/recovery.py` reports, seeds fixed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "benchmarks" / "recovery.py"
SPEC = importlib.util.spec_from_file_location("recovery", PATH)
assert SPEC
assert SPEC.loader
recovery = importlib.util.module_from_spec(SPEC)
sys.modules["recovery"] = recovery
SPEC.loader.exec_module(recovery)

SETS = 250


@pytest.mark.slow
@pytest.mark.parametrize(
    ("space", "floors"),
    [("ruler", (0.82, 0.70, 0.55)), (None, (0.76, 0.56, 0.38)), ("wide", (0.80, 0.62, 0.45))],
)
def test_the_truth_is_found_as_often_as_stated(space: str | None, floors: tuple[float, ...]) -> None:
    for noise, floor in zip(recovery.NOISES, floors, strict=True):
        tally = recovery.recover(recovery.samples(SETS, noise, seed=5), space)
        assert tally.exact / SETS >= floor, noise
        assert tally.kept / SETS >= 0.90, "a right expectation is rejected at 5 % only"
        assert tally.ok / SETS >= 0.96


@pytest.mark.slow
def test_an_expectation_too_high_is_rejected() -> None:
    for noise, ceiling in zip(recovery.NOISES, (0.05, 0.08, 0.15), strict=True):
        tally = recovery.recover(recovery.samples(SETS, noise, seed=5), None, recovery.Term(0, "1/2"))
        assert tally.kept / SETS <= ceiling

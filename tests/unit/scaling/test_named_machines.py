"""Seven collectives on four machines: described within 5 %, with the growth that the paper's method finds."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import labkit as lk
from tests.support.benchmarks import load_benchmark

#: recorded by the benchmark with --record
SERIES = json.loads(Path(__file__).with_name("named_machines.json").read_text())


@pytest.fixture(scope="module")
def machines() -> ModuleType:
    return load_benchmark("verdicts/machines.py")


def test_most_are_described_and_grow_as_the_plain_method_says(machines: ModuleType) -> None:
    described, same, firm = 0, 0, 0
    for one in SERIES:
        p, y = np.array(one["p"], dtype=float), np.array(one["us"])
        verdict = lk.judge(p, y, machines.EXPECTED[one["collective"]])
        assert verdict.model is not None
        is_near = bool((np.abs(verdict.model.predict(p) / y - 1) <= 0.05).all())
        assert is_near == (not verdict.model.is_nearest)
        term, r2 = machines.plain(p, y)
        described += is_near
        firm += r2 > 0.99
        same += r2 > 0.99 and term == str(verdict.model.term)
    assert len(SERIES) == 28
    assert described >= 26
    assert firm >= 20
    assert same >= firm - 1  # of the other one the curve of the method misses a point by 8.7 %


def test_the_plain_method_finds_what_it_was_made_for(machines: ModuleType) -> None:
    p = 2.0 ** np.arange(4, 12)
    for y, term in ((3 + p * np.log2(p), "p log p"), (2 * np.log2(p) - 1, "log p")):
        assert machines.plain(p, y)[0] == term


@pytest.mark.parametrize(("machine", "collective"), [("juropa", "Bcast"), ("juqueen", "Allreduce")])
def test_the_recorded_times_are_computed_again(machines: ModuleType, machine: str, collective: str) -> None:
    one = next(s for s in SERIES if (s["machine"], s["collective"]) == (machine, collective))
    for p, us in list(zip(one["p"], one["us"], strict=True))[:4]:
        run = lk.run(machines.collective, p, machine, args=(collective,), seed=1)
        assert run.makespan_s * 1e6 == pytest.approx(us, rel=1e-6)

"""Seven collectives on four machines: described, with the growth that the paper's method finds."""

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
    described, near, same, firm = 0, 0, 0, 0
    for one in SERIES:
        p, y = np.array(one["p"], dtype=float), np.array(one["us"])
        verdict = lk.judge(p, y, machines.EXPECTED[one["collective"]])
        assert verdict.model is not None
        farthest = float(np.abs(verdict.model.predict(p) / y - 1).max())
        is_told = f"up to {100 * farthest:.2g} % off" in verdict.reading
        assert (farthest <= 0.05) == (not verdict.model.is_nearest and not is_told)
        term, r2 = machines.plain(p, y)
        described += not verdict.model.is_nearest
        near += farthest <= 0.05
        firm += r2 > 0.99
        same += r2 > 0.99 and term == str(verdict.model.term)
    assert len(SERIES) == 28
    assert described >= 26
    assert near >= 20
    assert firm >= 20
    assert same == firm


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

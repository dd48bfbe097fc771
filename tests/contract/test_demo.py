"""The demo's simulated half: what it sweeps, judges and extrapolates is really simulated and checked."""

from __future__ import annotations

import numpy as np
import pytest

from labkit import registry
from labkit.cli import demo as module
from labkit.cli.demo import KEYS_PER_RANK, MACHINES, PLANS, SORTERS, Demo, Extent, Rows
from labkit.errors import CheckError
from tests.support.refusals import raises_code

P = (2, 4, 8, 16, 32)


@pytest.fixture(scope="module")
def small() -> module.SimulatedSort:
    return module.simulate_one("sample_sort", "star", "star", P)


def test_plans_take_the_five_sorts_and_every_machine() -> None:
    assert set(SORTERS) < set(registry.names("sorting"))
    assert set(MACHINES) == {"star", "torus", "fat tree"}
    for plan in PLANS.values():
        assert plan.sorters == SORTERS
        assert len(plan.simulated) >= 5, "a verdict needs five"


def test_every_sorter_promises_something_for_each_of_its_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MACHINES", {"star": "star"})
    plan = Extent((), P, 64, (), tuple(registry.names("sorting")))
    lines: list[str] = []
    rows = Rows(lines.append, "   sorter|machine| keys| first| last| messages| largest| seconds")
    for one in module.simulate_sorts(plan, rows):
        wanted = registry.get("sorting", one.sorter).requirements.keys_per_rank
        assert set(one.table.verdicts) == {*one.study.phases, "whole run"}, one.sorter
        assert one.n_local == (wanted or KEYS_PER_RANK)
        assert set(one.imbalances) == set(one.host_seconds) == set(one.messages) == set(P)
    assert len(lines) == 1 + len(rows.frame()) == 1 + len(plan.sorters)


def test_phases_make_up_the_whole(small: module.SimulatedSort) -> None:
    shares = small.shares(32)
    assert set(shares) == {"agree", "local sort", "splitters", "exchange", "merge"}
    assert 0.99 < sum(shares.values()) < 1.1  # the slowest rank of each phase may be another one


def test_machines_stand_side_by_side(small: module.SimulatedSort) -> None:
    other = module.simulate_one("sample_sort", "slow star", "star,lat=10us", P)
    comparison = Demo(PLANS["quick"], {}, "extract", [small, other]).comparison
    assert comparison.machines == ["star", "slow star"]
    assert comparison.tables["sample sort"]["slow star"] is other.table


def test_extrapolation_compares_with_a_run(small: module.SimulatedSort) -> None:
    row = module.extrapolate(small, 64)
    again = module.simulate_one("sample_sort", "star", "star", (4, 8, 16, 32, 64))
    assert row.simulated_s == again.makespans()[64]
    model = small.table.models["whole run"]
    assert model is not None
    assert row.model_s == float(model.predict(64))


def test_a_wrong_sort_ends_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    def unsorted(comm: object, sorter: str, n_local: int, seed: int = 0) -> np.ndarray:
        from labkit.datasets import inputs
        from labkit.program.context import phase

        for name in ("agree", "local sort", "splitters", "exchange", "merge"):
            with phase(name):
                pass
        return inputs.keys("uniform", comm.rank, comm.size, n_local)

    monkeypatch.setattr(module, "sort_generated", unsorted)
    with raises_code(CheckError, "wrong-result", "NumPy", "ranks 2", "4", "8"):
        module.simulate_one("sample_sort", "star", "star", P)

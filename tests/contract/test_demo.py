"""The demo's simulated half: what it sweeps, judges and extrapolates is really simulated and checked."""

from __future__ import annotations

import numpy as np
import pytest

from labkit.demo import simulated as module
from labkit.errors import CheckError


@pytest.fixture(scope="module")
def small() -> module.SimulatedSort:
    return module.sort_on_simulated_cluster((2, 4, 8, 16, 32), n_local=100)


def test_every_phase_is_judged(small: module.SimulatedSort) -> None:
    assert set(small.table.verdicts) == {
        "agree", "local sort", "splitters", "exchange", "merge", "whole run"
    }  # fmt: skip
    assert small.table.verdicts["local sort"].match == "exact"
    assert set(small.imbalances) == set(small.host_seconds) == {2, 4, 8, 16, 32}


def test_phases_make_up_the_whole(small: module.SimulatedSort) -> None:
    shares = small.shares(32)
    assert set(shares) == {"agree", "local sort", "splitters", "exchange", "merge"}
    assert 0.99 < sum(shares.values()) < 1.1  # the slowest rank of each phase may be another one


def test_extrapolation_compares_with_a_run(small: module.SimulatedSort) -> None:
    rows = {row.name: row for row in module.extrapolate(small, 64)}
    assert set(rows) == set(small.table.verdicts)
    again = module.sort_on_simulated_cluster((4, 8, 16, 32, 64), n_local=100)
    measured = again.study.data
    makespan = measured[(measured["ranks"] == 64) & (measured["metric"] == "makespan_s")]["value"].iloc[0]
    assert rows["whole run"].simulated_s == makespan
    assert rows["local sort"].model_s == pytest.approx(rows["local sort"].simulated_s)


def test_a_wrong_sort_ends_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    def unsorted(comm: object, n_local: int, seed: int = 0) -> np.ndarray:
        from labkit.context import phase
        from labkit.datasets import inputs

        for name in ("agree", "local sort", "splitters", "exchange", "merge"):
            with phase(name):
                pass
        return inputs.keys("uniform", comm.rank, comm.size, n_local)

    monkeypatch.setattr(module, "sort_generated", unsorted)
    with pytest.raises(CheckError, match="differs from NumPy's at ranks 2, 4, 8, 16, 32"):
        module.sort_on_simulated_cluster((2, 4, 8, 16, 32), n_local=10)

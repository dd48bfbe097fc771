"""What the reading of wait states says of the critical path and of causes holds for every run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit.errors import DataError
from tests.support.refusals import raises_code


def uneven(comm: Any) -> None:
    """Rank 0 has most of the first visit of *work* and is elsewhere in the second, which is off the path."""
    with lk.phase("work"):
        lk.compute(seconds=20e-3 if comm.rank == 0 else 1e-3)
    comm.Barrier()
    with lk.phase("other" if comm.rank == 0 else "work"):
        lk.compute(seconds=22e-3 if comm.rank == 0 else 10e-3)
    comm.Barrier()


def test_the_excess_of_the_critical_path_is_said_of_the_path_and_not_of_the_run() -> None:
    run = lk.run(uneven, 3, on="star:3", trace=True)
    waiting = run.waits()
    table = waiting.balance()
    own = (table["phase"] == "work") & (table["call"] == "computation")
    excess_s = table.loc[own, "critical_imbalance_s"].item()
    assert excess_s == pytest.approx(20e-3 - (20e-3 + 11e-3 + 11e-3) / 3)
    won_s = run.what_if(balanced="work", every_visit=True).won_s
    assert won_s == pytest.approx(20e-3 - 22e-3 / 3, rel=1e-3)
    assert won_s > 1.9 * excess_s  # no bound of what the run can win
    with raises_code(DataError, "wrong-type"):
        run.what_if(balanced=True)
    said = waiting.reading().partition("On the critical path, ")[2]
    assert said.startswith("phase other takes 22 ms, 14.7 ms more than the mean of the ranks: ")
    assert said.endswith("with the mean instead, this path would be 14.7 ms (35%) shorter.")


def test_rounding_is_no_cause() -> None:
    def solver(comm: Any) -> None:
        given, got = np.zeros(50_000), np.zeros(50_000)
        for _ in range(4):
            with lk.phase("solve"):
                lk.compute(seconds=3e-3 if comm.rank == 2 else 1e-3)
            with lk.phase("halo"):
                comm.Sendrecv(given, (comm.rank + 1) % comm.size, 0, got, (comm.rank - 1) % comm.size, 0)
            comm.Allreduce(np.zeros(4), np.zeros(4))

    waiting = lk.run(solver, 8, "torus:4x2", trace=True).waits()
    assert waiting.delays["direct_s"].min() < 1e-15  # a difference of sums
    causes = waiting.causes()
    assert causes["share"].min() > 1e-12
    assert causes["cost_s"].sum() == pytest.approx(waiting.seconds, rel=1e-12)

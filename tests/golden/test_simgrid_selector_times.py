"""Every collective takes as long under labkit's `smpi`, `ompi` and `mpich` as under smpirun's selectors.

The figures are SimGrid 3.32's own (`benchmarks/simgrid/selector_times.py`): the last and the mean end of the
ranks, on stars of 2, 16, 17 and 64 hosts, from 8 B to 1 MiB.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from labkit import registry
from labkit.machines.models import get
from labkit.selector import Choices, selector_of
from labkit.sim.schedules import simulate

GOLDENS = json.loads(Path(__file__).with_name("simgrid_selector_times.json").read_text())
OPERATIONS = sorted({operation for _, operation, *_ in GOLDENS})


@pytest.mark.parametrize("selector", ["smpi", "ompi", "mpich"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_collective_takes_as_long_as_under_smpirun(selector: str, operation: str) -> None:
    points = [point[2:] for point in GOLDENS if point[:2] == [selector, operation]]
    assert {ranks for ranks, *_ in points} >= {2, 16, 64}
    for ranks, n_bytes, last_s, mean_s in points:
        spec = f"star:{ranks},bw=1Gbps,lat=24us"
        choices = Choices(selector_of(selector), spec, 1, get("smpi").copied_below_bytes)
        name = choices(operation, ranks, n_bytes)
        run = simulate(registry.get(operation, name).build(ranks), spec, "smpi", n_bytes=n_bytes)
        found = [float(np.max(run.end_s)), float(np.mean(run.end_s))]
        assert found == pytest.approx([last_s, mean_s], rel=1e-6), (ranks, n_bytes, name)


def test_all_collectives_are_there() -> None:
    assert set(OPERATIONS) == {
        "allgather", "allgatherv", "allreduce", "alltoall", "alltoallv", "barrier", "bcast", "exscan",
        "gather", "gatherv", "reduce", "reduce_scatter_block", "scan", "scatter", "scatterv",
    }  # fmt: skip
